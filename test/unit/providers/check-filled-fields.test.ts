import { expect, it } from "vitest";
import { ProviderMistake, readProvider } from "../../../src/providers/read.ts";

const field = { name: "tenantId", pattern: "[a-z]+", automatic: true };
const choice = {
  name: "tenant",
  request: { path: "/tenants" },
  label: "name",
  connection_config: { tenantId: "id" },
};
const described = (change: object) => ({
  name: "acme",
  api_key: { header: "x-key" },
  integration_settings: [{ name: "developerToken", secret: true }],
  connection_fields: [field],
  ...change,
  proxy: { base_url: "https://api.acme.example", ...(change as { proxy?: object }).proxy },
});

function mistakesOf(change: object): readonly string[] {
  try {
    readProvider(described(change));
    return [];
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return error.mistakes.map(({ path, message }) => `${path.join(".")}: ${message}`);
  }
}

it("takes settings, the client ID and fields of the connection in headers, parameters and requests", () => {
  const headers = { "x-dev": "a ${integration.developerToken}", "x-tenant": "${connectionConfig.tenantId}" };
  const request = {
    path: "/x",
    headers: { "x-app": "${integration.clientId}" },
    format: "form",
    body: "a=${integration.clientId}&b=",
  };
  expect(
    mistakesOf({
      proxy: { headers, query: { app: "${integration.clientId}" } },
      verification: { request },
      choices: [choice],
    }),
  ).toEqual([]);
});

it.each<[object, string]>([
  [{ proxy: { headers: { "x-a": "${integration.other}" } } }, "uses integration.other, which is not among"],
  [{ proxy: { headers: { "x-a": "${integration.clientSecret}" } } }, "uses integration.clientSecret"],
  [{ proxy: { headers: { "x-a": "${connectionConfig.other}" } } }, "uses connectionConfig.other, which is not among"],
  [{ proxy: { headers: { "x-a": "${credentials.key}" } } }, "may contain only"],
  [{ proxy: { query: { a: "${connectionConfig.tenantId" } } }, "has ${ without }"],
  ...["Authorization", "cookie", "host", "X-Forwarded-Host", "x_real_ip", "latchkey-key", "connection-id"].map(
    (name): [object, string] => [{ proxy: { headers: { [name]: "${integration.clientId}" } } }, "cannot fill"],
  ),
  [{ proxy: { headers: { "X-Key": "${integration.clientId}" } } }, "is the header of the credentials"],
  [{ proxy: { base_url: "https://${integration.developerToken}.acme.example" } }, "proxy.base_url"],
  [{ verification: { request: { path: "/", headers: { host: "x" } } } }, "verification.request.headers.host"],
  [{ verification: { request: { method: "POST", path: "/", format: "form", body: "no pairs" } } }, "must be a form"],
  [{ integration_settings: [{ name: "clientId" }] }, "is a value of the OAuth app"],
  [{ integration_settings: [{ name: "a" }, { name: "a" }] }, "is a duplicate"],
  [{ integration_settings: [{ name: "a", pattern: "(" }] }, "must be a regular expression"],
  [{ choices: [choice, { ...choice, name: "other" }] }, "is stored by two choices"],
  [{ choices: [choice, choice] }, "choices.1.name: is a duplicate"],
  [{ choices: [{ ...choice, label: "" }] }, "must name the place of the label"],
  [{ choices: [{ ...choice, connection_config: { other: "id" } }] }, "must be a connection field with automatic"],
  [{ choices: [{ ...choice, connection_config: { tenantId: "a..b" } }] }, "must be a dotted path"],
  [{ choices: [choice], connection_fields: [{ ...field, required: true }] }, "must not be a required field"],
  [{ choices: [{ ...choice, request: { path: "/${connectionConfig.none}" } }] }, "choices.0.request"],
])("refuses %j", (change, message) => {
  expect(mistakesOf(change).join("\n")).toContain(message);
});
