import { expect, it } from "vitest";
import { parse } from "yaml";
import { runCli } from "../../../src/cli/program.ts";
import { checkProviderFile } from "../../../src/providers/check-file.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { memoryTerminal } from "./memory-terminal.ts";

async function draftOf(document: string, ...words: readonly string[]) {
  const terminal = memoryTerminal({ stdin: document });
  const code = await runCli(["providers", "import-openapi", "-", ...words], terminal);
  return { code, text: terminal.out(), err: terminal.err() };
}

const crm = `
openapi: 3.1.0
info: { title: Acme CRM API v2, version: "2" }
externalDocs: { url: https://developers.acme.example/crm }
servers:
  - url: http://localhost:8080
  - url: https://{account}.acme.example/v2/
    variables: { account: { default: demo } }
paths:
  /contacts:
    get:
      parameters:
        - { in: query, name: cursor, schema: { type: string } }
        - $ref: "#/components/parameters/Size"
      responses:
        "429": { $ref: "#/components/responses/Limited" }
  /contacts/{id}/me: { get: { responses: {} } }
  /users/me: { get: { responses: {} } }
components:
  parameters:
    Size: { in: query, name: page_size, schema: { type: integer } }
  responses:
    Limited: { description: Too many, headers: { X-RateLimit-Reset: { schema: { type: integer } } } }
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Api-Key }
    user:
      type: oauth2
      flows:
        authorizationCode:
          authorizationUrl: https://acme.example/oauth/authorize
          tokenUrl: https://acme.example/oauth/token
          refreshUrl: https://acme.example/oauth/refresh
          scopes: { "contacts:read": Read contacts., "contacts:write": Write contacts. }
`;

it("drafts a provider of an OpenAPI document, which the check accepts", async () => {
  const { code, text, err } = await draftOf(crm);
  expect([code, checkProviderFile(text).mistakes]).toEqual([0, []]);
  expect(err).toMatch(/^\d+ questions to answer/);
  expect(text).toMatch(/^# A draft from an OpenAPI document/);
  expect(parse(text)).toEqual({
    name: "acme-crm",
    display_name: "Acme CRM API v2",
    categories: ["other"],
    docs_url: "https://developers.acme.example/crm",
    oauth2: {
      authorization_url: "https://acme.example/oauth/authorize",
      token_url: "https://acme.example/oauth/token",
      refresh_url: "https://acme.example/oauth/refresh",
      default_scopes: ["contacts:read"],
      scope_notes: [
        { scope: "contacts:read", meaning: "Read contacts." },
        { scope: "contacts:write", meaning: "Write contacts." },
      ],
    },
    proxy: {
      base_url: "https://${connectionConfig.account}.acme.example/v2",
      retry: { after_header: "x-ratelimit-reset" },
      pagination: { kind: "cursor", parameter: "cursor", limit_parameter: "page_size", limit: 100 },
    },
    connection_fields: [expect.objectContaining({ name: "account", example: "demo", required: true })],
    verification: { request: { method: "GET", path: "/users/me" } },
  });
});

it.each([
  [
    "the flow of Swagger 2.0",
    { type: "oauth2", flow: "application", tokenUrl: "https://a.example/token" },
    "oauth2Client",
  ],
  ["basic of Swagger 2.0", { type: "basic" }, "basic"],
  ["a key in the query", { type: "apiKey", in: "query", name: "key" }, "apiKey"],
])("reads %s", async (_, scheme, kind) => {
  const document = {
    swagger: "2.0",
    info: { title: "A" },
    host: "a.example",
    basePath: "/v1",
    securityDefinitions: { s: scheme },
    paths: {},
  };
  const { text } = await draftOf(JSON.stringify(document), "--name", "own-name");
  const provider = readProvider(parse(text));
  expect([provider.name, provider.auth.case, provider.proxy?.baseUrl]).toEqual([
    "own-name",
    kind,
    "https://a.example/v1",
  ]);
});

it("says what is no OpenAPI document", async () => {
  const { code, err } = await draftOf("name: acme\n");
  expect([code, err]).toEqual([2, expect.stringContaining("is no OpenAPI document")]);
});
