import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { IntegrationSecretsSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";
import { started } from "../sandbox/started.ts";

it("asks a provider of the configuration file over the sidecar's own way, and counts it", async () => {
  const sandbox = await started();
  const file = JSON.stringify({ providers: describeProviders(sandbox.origin) });
  const running = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin), LATCHKEY_CONFIG: "/latchkey.json" },
    files: { "/latchkey.json": file },
  });
  const { broker } = running.sidecar;
  const made = await running.rest("POST", "/integrations", {
    body: { unique_key: "files", provider: "sandbox-files" },
  });
  expect(made.status).toBe(200);
  const provider = broker.providers.find("sandbox-files");
  const { refresh_token: refreshToken } = sandbox.grant();
  const { value: integration } = await broker.integrations.get({ environment: "dev", key: "files" });
  const got = await broker.tokens.ask({
    provider,
    integration,
    secrets: create(IntegrationSecretsSchema, {}),
    client: { id: "sandbox", secret: "sandbox-secret" },
    connectionConfig: {},
    grant: { type: "refresh_token", refreshToken },
  });
  expect(got.refreshToken).toMatch(/^sbx_rt_/);
  expect(await running.metric('latchkey_token_requests_total{grant="refresh_token",outcome="ok"}')).toBe(1);
  for (const secret of [refreshToken, got.accessToken, "sandbox-secret"]) {
    expect(running.logged.join("\n")).not.toContain(secret);
  }
});
