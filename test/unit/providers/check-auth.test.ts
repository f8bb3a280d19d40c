import { expect, it } from "vitest";
import { ProviderMistake, readProvider } from "../../../src/providers/read.ts";

function mistakesIn(description: object): string[] {
  try {
    readProvider({ name: "mine", ...description });
    return [];
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return error.mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`);
  }
}
const pathsIn = (description: object) => mistakesIn(description).map((one) => one.split(":", 1)[0]);

const field = { name: "realm", pattern: "[0-9]+", automatic: true };
const urls = { authorization_url: "https://a.example/auth", token_url: "https://a.example/token" };
const oauth2 = (rules: object, more: object = {}) => ({ oauth2: { ...urls, ...rules }, ...more });

it("accepts each difference from the RFC", () => {
  const rules = {
    token_url: "https://a.example/${connectionConfig.realm}/token",
    callback_config: { realm: "realmId" },
    parameter_names: { client_id: "app_id", callback_code: "auth_code", code: "auth_code" },
    omitted_params: ["response_type"],
    token_request_method: "GET",
    exchanges: [{ url: "https://b.example/x", params: { t: "${token}", s: "${integration.clientSecret}" } }],
    further_tokens: { user: { token_answer: { access_token: "user.token" }, scope_parameter: "user_scope" } },
    token_endpoint_auth_method: "private_key_jwt",
    client_assertion: { audience: "https://a.example", lifetime: "300s", header: { kid: "${integration.keyId}" } },
  };
  expect(mistakesIn(oauth2(rules, { connection_fields: [field], integration_settings: [{ name: "keyId" }] }))).toEqual(
    [],
  );
});

it.each([
  // A callback can be changed by anyone: its values need a form.
  [{ callback_config: { host: "h" } }, "oauth2.callback_config.host"],
  [{ callback_config: { realm: "state" } }, "oauth2.callback_config.realm"],
  [{ parameter_names: { client_id: "state" } }, "oauth2.parameter_names.client_id"],
  [{ parameter_names: { client_id: "a", client_secret: "a" } }, "oauth2.parameter_names.client_secret"],
  [{ parameter_names: { code: "a b" } }, "oauth2.parameter_names.code"],
  [{ parameter_names: { code: "c" }, pushed_authorization_url: "https://a.example/par" }, "oauth2.parameter_names"],
  [{ omitted_params: ["state"] }, "oauth2.omitted_params.0"],
  [{ token_request_method: "GET", dpop: true }, "oauth2.token_request_method"],
  [{ token_request_method: "GET", token_request_format: "json" }, "oauth2.token_request_format"],
  [{ exchanges: [{ url: "http://a.example", params: { t: "${token}" } }] }, "oauth2.exchanges.0.url"],
  [
    { exchanges: [{ url: "https://${connectionConfig.other}/x", params: { t: "${token}" } }] },
    "oauth2.exchanges.0.url",
  ],
  [{ exchanges: [{ url: "https://a.example", params: { t: "x" } }] }, "oauth2.exchanges.0.params"],
  [
    { exchanges: [{ url: "https://a.example", params: { t: "${token}", k: "${integration.key}" } }] },
    "oauth2.exchanges.0.params.k",
  ],
  [
    { exchanges: [{ url: "https://a.example", params: { t: "${token}" }, headers: { host: "b.example" } }] },
    "oauth2.exchanges.0.headers.host",
  ],
  [
    { exchanges: [{ url: "https://a.example", params: { t: "${token}" }, token_answer: { scope: "a..b" } }] },
    "oauth2.exchanges.0.token_answer.scope",
  ],
  [{ further_tokens: { user: {} } }, "oauth2.further_tokens.user.token_answer.access_token"],
  [
    { further_tokens: { user: { token_answer: { access_token: "access_token" } } } },
    "oauth2.further_tokens.user.token_answer.access_token",
  ],
  [
    { further_tokens: { user: { token_answer: { access_token: "u" }, default_scopes: ["a"] } } },
    "oauth2.further_tokens.user.scope_parameter",
  ],
  [
    { further_tokens: { user: { token_answer: { access_token: "u" }, scope_parameter: "scope" } } },
    "oauth2.further_tokens.user.scope_parameter",
  ],
  [
    { further_tokens: { user: { token_answer: { access_token: "u" }, scope_parameter: "s", scope_notes: [{}] } } },
    "oauth2.further_tokens.user.scope_notes.0.scope",
  ],
  [{ further_tokens: { "A b": { token_answer: { access_token: "u" } } } }, "oauth2.further_tokens.A b"],
  [{ client_assertion: { audience: "x" } }, "oauth2.client_assertion"],
  [
    { token_endpoint_auth_method: "client_secret_jwt", client_assertion: { header: { alg: "none" } } },
    "oauth2.client_assertion.header.alg",
  ],
  [
    {
      token_endpoint_auth_method: "client_secret_jwt",
      client_assertion: { header: { kid: "${integration.clientSecret}" } },
    },
    "oauth2.client_assertion.header.kid",
  ],
])("refuses %j", (rules, path) => {
  expect(pathsIn(oauth2(rules, { connection_fields: [field] }))).toEqual([path]);
});

it("keeps rules for end users out of client credentials", () => {
  const rules = { token_url: urls.token_url, callback_config: { realm: "r" } };
  expect(pathsIn({ oauth2_client: rules, connection_fields: [field] })).toEqual(["oauth2_client.callback_config"]);
});

const proof = {
  token_url: "https://a.example/token",
  list_url: "https://a.example/list",
  value: "id",
  field: "installation_id",
};
const app = {
  install_url: "https://a.example/apps/${integration.slug}/new",
  callback_fields: { installation_id: "installation_id" },
  installation_proof: proof,
  token_url: "https://a.example/i/${credentials.installation_id}/tokens",
};
const slug = [{ name: "slug" }];

it.each([
  [{}, []],
  // The callback alone proves nothing.
  [{ installation_proof: undefined }, ["app.installation_proof"]],
  [{ callback_fields: { installation_id: "i", app_id: "a" } }, ["app.callback_fields.app_id"]],
  [{ callback_fields: { installation_id: "code" } }, ["app.callback_fields.installation_id"]],
  [{ install_url: "https://${integration.slug}.evil.example/new" }, ["app.install_url"]],
  [{ install_url: "https://a.example/${integration.other}/new" }, ["app.install_url"]],
  [{ install_url: "http://a.example/new" }, ["app.install_url"]],
  [{ install_url: "" }, ["app.install_url"]],
  [{ installation_proof: { ...proof, list_url: "http://a.example/list" } }, ["app.installation_proof.list_url"]],
  [{ installation_proof: { ...proof, field: "x" } }, ["app.installation_proof.field"]],
  [
    { installation_proof: { ...proof, list_url: "https://a.example/${credentials.installation_id}" } },
    ["app.installation_proof.list_url"],
  ],
])("checks the installation of an app: %j", (more, paths) => {
  const rules = JSON.parse(JSON.stringify({ ...app, ...more }));
  expect(pathsIn({ app: rules, integration_settings: slug })).toEqual(paths);
});

it("checks what the request and the JWT of an exchange contain", () => {
  const rules = {
    token_url: "https://a.example/token",
    request: { params: { a: "${jwt}", b: "${password}" }, headers: { c: "${jwt}" } },
    install_url: "https://a.example/new",
  };
  expect(pathsIn({ two_step: rules })).toEqual([
    "two_step.jwt",
    "two_step.request.params.b",
    "two_step.request.headers.c",
    "two_step.install_url",
  ]);
  const jwt = { algorithm: "HS256", claims: { sub: "${connectionConfig.subject}", deep: { x: ["${secret}"] } } };
  expect(pathsIn({ jwt: { jwt } })).toEqual(["jwt.jwt.claims.deep.x.0"]);
});
