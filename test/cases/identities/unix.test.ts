import { execFile } from "node:child_process";
import { chmod, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { callProvider, configOf, outcomeOf, reload, startIdentified } from "../../support/identities/callers.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const run = promisify(execFile);
const own = process.getuid?.() ?? -1;
const connection = ["-H", "Provider-Config-Key: here", "-H", "Connection-Id: ada"];

/** Calls a URL as another user; returns the status, or `000` where no connection could be made. */
async function curlAs(uid: number, ...args: readonly string[]): Promise<string> {
  const curl = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", ...connection, ...args];
  const as = ["--reuid", String(uid), "--regid", String(uid), "--clear-groups", ...curl];
  const { stdout } = await run("setpriv", as).catch((error: { stdout: string }) => error);
  return stdout;
}

describe.skipIf(process.platform !== "linux")("the user of a connection over the loopback interface", () => {
  it("needs no key, on the proxy, JSON routes and RPCs", async () => {
    const rule = { unix: { uid: own }, environment: "dev", scopes: ["proxy", "connections:read"] };
    const sidecar = await startIdentified({ rules: [rule] });
    // On one connection and on several.
    for (let i = 0; i < 3; i += 1) expect((await callProvider(sidecar)).status).toBe(200);
    const { status } = await fetch(`${sidecar.data}/connections`);
    expect(status).toBe(200);
    const caller = await createClient(EnvironmentService, createGrpcTransport({ baseUrl: sidecar.control })).getCaller(
      {},
    );
    expect(caller).toMatchObject({ keyId: `unix uid ${own}`, environment: "dev" });
    // Pages have no identity, wherever they come from.
    for (const page of [{ "sec-fetch-site": "none" }, { "sec-fetch-site": "same-origin" }]) {
      expect(outcomeOf(await callProvider(sidecar, undefined, page))).toMatchObject({ code: "missing_auth_header" });
      expect((await fetch(`${sidecar.data}/connections`, { headers: page })).status).toBe(401);
      const rpc = { method: "POST", body: "{}", headers: { "content-type": "application/json", ...page } };
      expect((await fetch(`${sidecar.control}/latchkey.v1.EnvironmentService/GetCaller`, rpc)).status).toBe(401);
    }
    expect(outcomeOf(await callProvider(sidecar, "lk_wrong"))).toMatchObject({ status: 401, code: "unknown_key" });
    await reload(sidecar, { rules: [{ unix: { uid: own + 1 }, environment: "dev" }] });
    expect(outcomeOf(await callProvider(sidecar))).toMatchObject({
      status: 401,
      code: "identity_refused",
      message: `no rule of \`identities.rules\` allows the user ${own} of this machine; send a key`,
    });
    await reload(sidecar, {});
    expect(outcomeOf(await callProvider(sidecar))).toMatchObject({ status: 401, code: "missing_auth_header" });
  });

  it.skipIf(lacks("users") || lacks("curl"))(
    "is told apart from other users, whose requests look the same",
    async () => {
      const limits = { methods: ["POST"] };
      const sidecar = await startIdentified({
        rules: [
          { unix: { uid: 12_001 }, environment: "dev" },
          { unix: { uid: 12_002 }, environment: "dev", limits },
        ],
      });
      const url = `${sidecar.data}/proxy/x`;
      const statuses = await Promise.all([12_001, 12_002, 12_003, 12_001].map((uid) => curlAs(uid, `${url}?a=[1-2]`)));
      expect(statuses).toEqual(["200200", "403403", "401401", "200200"]);
      expect(await curlAs(12_001, "-H", "Latchkey-Key: lk_wrong", url)).toBe("401");
    },
  );
});

describe.skipIf(process.platform !== "linux")("a Unix socket of an identity", () => {
  const socketOf = async () => {
    const folder = await temporaryFolder();
    await chmod(folder, 0o755);
    return join(folder, "caller.sock");
  };

  it.skipIf(lacks("users") || lacks("curl"))("lets in who may write to it, without a key", async () => {
    const [socket, shared] = [await socketOf(), await socketOf()];
    const sidecar = await startIdentified({
      rules: [
        { unix: { socket, owner: 12_001, group: 12_009 }, environment: "dev" },
        { unix: { socket: shared, mode: "0666" }, environment: "dev", limits: { methods: ["POST"] } },
      ],
    });
    const { uid, gid, mode } = await stat(socket);
    expect([uid, gid, mode & 0o777]).toEqual([12_001, 12_009, 0o600]);
    const at = (path: string) => ["--unix-socket", path, "http://localhost/proxy/x"];
    expect(await curlAs(12_001, ...at(socket))).toBe("200");
    expect(await curlAs(12_002, ...at(socket))).toBe("000");
    expect(await curlAs(12_002, ...at(shared))).toBe("403");
    expect(await curlAs(12_002, "-X", "POST", ...at(shared))).toBe("200");
    // The main listener still needs a key.
    expect(await curlAs(12_001, `${sidecar.data}/proxy/x`)).toBe("401");
    await reload(sidecar, { rules: [{ unix: { socket: shared }, environment: "dev" }] });
    expect(await curlAs(12_001, ...at(socket))).toBe("401");
  });

  it.skipIf(lacks("curl"))("may be that of the control listener", async () => {
    const socket = await socketOf();
    const sidecar = await startTestSidecar({
      env: { LATCHKEY_CONFIG: "/latchkey.yaml", LATCHKEY_CONTROL_LISTEN: `unix:${socket}` },
      files: { "/latchkey.yaml": configOf({ rules: [{ unix: { socket, mode: "0640" }, scopes: ["admin"] }] }) },
    });
    expect(sidecar.control).toBe(`unix:${socket}`);
    expect((await stat(socket)).mode & 0o777).toBe(0o640);
    const call = ["-H", "content-type: application/json", "-d", "{}"];
    const url = "http://localhost/latchkey.v1.EnvironmentService/GetCaller";
    for (const protocol of ["--http1.1", "--http2-prior-knowledge"]) {
      const { stdout } = await run("curl", ["-s", protocol, "--unix-socket", socket, ...call, url]);
      expect(JSON.parse(stdout)).toMatchObject({ keyId: `unix ${socket}`, scopes: ["SCOPE_ADMIN"] });
    }
  });
});
