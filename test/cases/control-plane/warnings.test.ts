import { expect, it } from "vitest";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { type Plain, post } from "./foreign.ts";

const running = sidecarOfFile();

const call = async (method: string, body: Plain): Promise<Plain> =>
  (await post(running().control, `IntegrationService/${method}`, body)).body;
const codesOf = (integration: Plain) => (integration["warnings"] ?? []).map((one: Plain) => one["code"]);

const environment = "dev";
const drive = "https://www.googleapis.com/auth/drive";

it("warns an operator of an integration's problem until it is solved", async () => {
  const oauth = { clientId: "abc", scopes: ["openid", drive], publishing: "PUBLISHING_TESTING" };
  const asked = { environment, key: "files", provider: "google-drive", oauth };
  const { integration } = await call("CreateIntegration", { integration: asked });
  expect(codesOf(integration)).toEqual(["short_lived_refresh_tokens", "verification_needed"]);
  expect(integration.warnings[0].scopes).toEqual([drive]);

  const shown = await call("GetIntegration", { environment, key: "files" });
  expect(shown["integration"].warnings).toEqual(integration.warnings);
  const { integrations } = await call("ListIntegrations", { environment, provider: "google-drive" });
  expect(integrations[0].warnings).toEqual(integration.warnings);

  const published = await call("UpdateIntegration", {
    integration: { ...asked, oauth: { publishing: "PUBLISHING_PRODUCTION" } },
    updateMask: "oauth.publishing",
  });
  expect(codesOf(published["integration"])).toEqual([]);
});

it("ignores warnings that a caller sends", async () => {
  const made = { code: "made_up", message: "x" };
  const asked = { environment, key: "quiet", provider: "calendar", oauth: { clientId: "abc" }, warnings: [made] };
  const { integration } = await call("CreateIntegration", { integration: asked });
  expect(codesOf(integration)).toEqual([]);
  const masked = await call("UpdateIntegration", { integration: asked, updateMask: "warnings" });
  expect(masked["message"]).toMatch(/warnings/);
  expect(codesOf((await call("GetIntegration", { environment, key: "quiet" }))["integration"])).toEqual([]);
});

it("warns that no account can be connected until the OAuth app is set", async () => {
  const asked = { environment, key: "unset", provider: "calendar" };
  const { integration } = await call("CreateIntegration", { integration: asked });
  expect(codesOf(integration)).toEqual(["client_missing"]);
  expect(integration.warnings[0].message).toContain("set client_id and client_secret");
  const oauth = { clientId: "abc" };
  const set = await call("UpdateIntegration", { integration: { ...asked, oauth }, updateMask: "oauth.clientId" });
  expect(codesOf(set["integration"])).toEqual([]);
  const keyed = { environment, key: "typed", provider: "example-api-key" };
  expect(codesOf((await call("CreateIntegration", { integration: keyed }))["integration"])).toEqual([]);
});

it("warns of unverified webhooks until there is a secret to verify them", async () => {
  const asked = { environment, key: "payments", provider: "stripe" };
  const { integration } = await call("CreateIntegration", { integration: asked });
  expect(codesOf(integration)).toEqual(["webhooks_unproven"]);
  expect(integration.warnings[0].message).toMatch(/webhooks of Stripe .* set webhook_secret/);
  const { integrations } = await call("ListIntegrations", { environment, provider: "stripe" });
  expect(integrations.map(codesOf)).toEqual([["webhooks_unproven"]]);

  const secrets = { webhookSecret: "whsec_of-stripe" };
  const updateMask = "secrets.webhookSecret";
  const proven = await call("UpdateIntegration", { integration: { ...asked, secrets }, updateMask });
  expect(codesOf(proven["integration"])).toEqual([]);
});
