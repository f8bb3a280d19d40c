import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { parseChangeable } from "../../../src/config/config.ts";
import { configOf } from "../../support/identities/callers.ts";
import { startIssuer } from "../../support/identities/issuer.ts";
import {
  apiHost,
  askRaw,
  basic,
  openSecure,
  sendConnect,
  startForwardProxied,
  startTlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const run = promisify(execFile);

describe.skipIf(lacks("openssl") || process.platform !== "linux")("an identity on the forward proxy", () => {
  async function start(rules: readonly object[], issuers: readonly object[] = []) {
    const provider = await startTlsProvider();
    onTestFinished(() => provider.close());
    const sidecar = await startForwardProxied(provider, {
      folder: await temporaryFolder(),
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": configOf({ issuers, rules }) },
    });
    onTestFinished(() => sidecar.stop());
    const authority = `${apiHost}:${provider.port}`;
    const get = async (authorization: string, lines = "") => {
      const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca, authorization });
      const text = await askRaw(secure, `GET / HTTP/1.1\r\nHost: ${authority}\r\n${lines}Connection: close\r\n\r\n`);
      return text.split(" ")[1];
    };
    return { sidecar, authority, get };
  }

  it("is proven by a token in place of a key", async () => {
    const issuer = await startIssuer();
    const { sidecar, authority, get } = await start(
      [{ service_account: "shop/checkout", environment: "dev" }],
      [{ name: "cluster", issuer: issuer.url, audience: "latchkey" }],
    );
    for (const header of [`Bearer ${issuer.token()}`, basic("here/ada", issuer.token()), basic(issuer.token(), "x")]) {
      expect(await get(header)).toBe("200");
    }
    const refused = await sendConnect(sidecar.proxy, authority, {
      authorization: `Bearer ${issuer.token({ aud: "x" })}`,
    });
    expect([refused.status, refused.text]).toEqual([407, expect.stringContaining("is for another audience")]);
  });

  it("is proven by the user of the connection, not for browsers, and not once its rule is gone", async () => {
    const uid = process.getuid?.() ?? -1;
    const { sidecar, authority, get } = await start([{ unix: { uid }, environment: "dev" }]);
    expect(await get("")).toBe("200");
    expect(await get("", "Sec-Fetch-Site: none\r\n")).toBe("407");
    const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca, authorization: "" });
    const ask = () => askRaw(secure, `GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    expect(await ask()).toContain("200 OK");
    const text = configOf({ rules: [{ unix: { uid: uid + 1 }, environment: "dev" }] });
    const files = { read: () => ({ text, mode: 0o600 }) };
    await sidecar.sidecar.reload(() => parseChangeable({ path: "/new.yaml", env: {}, files }));
    expect(await ask()).not.toContain("200 OK");
    const { status } = await sendConnect(sidecar.proxy, authority, { authorization: "" });
    expect(status).toBe(407);
  });

  it.skipIf(lacks("users") || lacks("curl"))("is told apart from other users", async () => {
    const { sidecar, authority } = await start([
      { unix: { uid: 12_001 }, environment: "dev" },
      { unix: { uid: 12_002 }, environment: "dev", limits: { methods: ["POST"] } },
    ]);
    const ask = async (uid: number) => {
      const as = ["--reuid", String(uid), "--regid", String(uid), "--clear-groups"];
      const curl = [
        "curl",
        "-sk",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-x",
        sidecar.proxy,
        `https://${authority}/`,
      ];
      const { stdout } = await run("setpriv", [...as, ...curl]).catch((error: { stdout: string }) => error);
      return stdout;
    };
    expect(await Promise.all([12_001, 12_002, 12_003, 12_001].map(ask))).toEqual(["200", "403", "000", "200"]);
  });
});
