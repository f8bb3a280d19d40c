import { readFileSync } from "node:fs";
import https from "node:https";
import { expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { createAuthority } from "../control-plane/certificates.ts";
import { proxyCall } from "./proxied.ts";
import { started } from "./started.ts";

it.skipIf(lacks("openssl"))("speaks TLS, to latchkey as well", async () => {
  const authority = createAuthority(await temporaryFolder(), "sandbox-ca");
  const issued = authority.issue("sandbox", { names: "IP:127.0.0.1" });
  const [cert, key, ca] = [issued.cert, issued.key, authority.cert].map((file) => readFileSync(file, "utf8"));
  const sandbox = await started({ tls: { cert: cert ?? "", key: key ?? "" } });
  expect(sandbox.origin).toMatch(/^https:\/\/127\.0\.0\.1:/);
  const document = await new Promise<string>((resolve, reject) => {
    const request = https.get(`${sandbox.origin}/.well-known/openid-configuration`, { ca }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve(text));
    });
    request.on("error", reject);
  });
  expect(JSON.parse(document)).toMatchObject({
    issuer: sandbox.origin,
    token_endpoint: `${sandbox.origin}/oauth2/token`,
  });

  const sidecar = await startTestSidecar({
    env: {
      LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
      LATCHKEY_CONFIG: "/latchkey.yaml",
      LATCHKEY_PROVIDER_CA: "/ca.pem",
    },
    files: { "/latchkey.yaml": JSON.stringify({ providers: describeProviders(sandbox.origin) }), "/ca.pem": ca ?? "" },
  });
  const { connect, call } = proxyCall(sidecar);
  await connect("sandbox-files", { type: "OAUTH2", access_token: sandbox.grant().access_token });
  expect((await call("sandbox-files", "/drive/v3/files")).status).toBe(200);
});
