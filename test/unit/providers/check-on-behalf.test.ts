import { expect, it } from "vitest";
import { ProviderMistake, readProvider } from "../../../src/providers/read.ts";

function mistakesIn(description: object): string[] {
  try {
    readProvider({ name: "mine", ...description });
    return [];
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return error.mistakes.map(({ path }) => path.join("."));
  }
}

const server = { token_url: "https://as.example/token", issuer: "https://as.example" };
const identity = { issuer: "https://idp.example", jwks_url: "https://idp.example/keys" };
const onBehalf = (rules: object, more: object = {}) => ({
  on_behalf: {
    grant: "token_exchange",
    authorization_server: server,
    identity_provider: identity,
    subject_audience: "app",
    ...rules,
  },
  ...more,
});

it("accepts rules for each grant", () => {
  const idJag = {
    grant: "id_jag",
    identity_provider: { ...identity, token_url: "https://idp.example/token" },
    identity_client_id_setting: "id",
    identity_client_secret_setting: "secret",
    resource: "https://${integration.id}.example",
  };
  const settings = { integration_settings: [{ name: "id" }, { name: "secret", secret: true }] };
  for (const one of [onBehalf({}), onBehalf({ grant: "jwt_bearer" }), onBehalf(idJag, settings)]) {
    expect(mistakesIn(one)).toEqual([]);
  }
});

it.each([
  // Tokens of users are verified, whatever else is described.
  [onBehalf({ identity_provider: { jwks_url: "https://idp.example/keys" } }), "on_behalf.identity_provider.issuer"],
  [onBehalf({ identity_provider: { issuer: "https://idp.example" } }), "on_behalf.identity_provider.jwks_url"],
  [onBehalf({ subject_audience: "" }), "on_behalf.subject_audience"],
  [onBehalf({ identity_provider: undefined }), "on_behalf.identity_provider"],
  [onBehalf({ authorization_server: { issuer: "https://as.example" } }), "on_behalf.authorization_server.token_url"],
  [onBehalf({ authorization_server: { token_url: "http://as.example" } }), "on_behalf.authorization_server.token_url"],
  [onBehalf({ identity_provider: { ...identity, dpop: true } }), "on_behalf.identity_provider.dpop"],
  [onBehalf({ grant: "id_jag" }), "on_behalf.identity_provider.token_url"],
  [onBehalf({ grant: "jwt_bearer", requested_token_type: "urn:x" }), "on_behalf.requested_token_type"],
  [onBehalf({ identity_client_id_setting: "id" }), "on_behalf.identity_client_id_setting"],
  [onBehalf({ audience: "${credentials.token}" }), "on_behalf.audience"],
  [onBehalf({}, { choices: [{ name: "site", request: { path: "/sites" } }] }), "choices"],
])("refuses %j", (description, path) => {
  expect(mistakesIn(description)).toContain(path);
});
