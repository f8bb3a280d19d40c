import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { z } from "zod";
import type { OpenApi } from "../../../bin/documents/openapi.ts";
import type { Broker } from "../../../src/broker/broker.ts";
import { restRoutes } from "../../../src/data-plane/api/rest.ts";
import type { ConnectSockets } from "../../../src/data-plane/connect/connect-sockets.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { keyedConnection } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const file = new URL("../../../docs/openapi.json", import.meta.url);

type Document = OpenApi & { readonly components: { readonly schemas: Readonly<Record<string, unknown>> } };

async function served(): Promise<Document> {
  const answer = await fetch(`${running().data}/openapi.json`);
  expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
  return (await answer.json()) as Document;
}

it("serves the document of the checkout, which describes every route", async () => {
  const document = await served();
  expect(document).toEqual(JSON.parse(readFileSync(file, "utf8")));
  expect(document.openapi).toBe("3.1.0");
  // Reads the table of routes and calls none.
  const routes = restRoutes({
    broker: {} as Broker,
    sockets: {} as ConnectSockets,
    publicUrl: () => "",
    proxyAddress: () => undefined,
  });
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ":$1")}`),
  );
  const answering = new Set(routes.map(({ method, path }) => `${method} ${path}`));
  expect([...answering].filter((route) => !described.includes(route))).toEqual([]);
  expect(described.filter((route) => !answering.has(route) && !/ \/(?:proxy|mcp)\//.test(route))).toEqual([]);
  const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((one) => one.operationId));
  expect(new Set(ids).size).toBe(ids.length);
});

/** Puts schemas in the place of references. */
function inlined(schema: unknown, schemas: Readonly<Record<string, unknown>>): unknown {
  if (Array.isArray(schema)) return schema.map((one) => inlined(one, schemas));
  if (typeof schema !== "object" || schema === null) return schema;
  const { $ref, ...rest } = schema as Record<string, unknown>;
  if (typeof $ref === "string") return inlined(schemas[$ref.split("/").at(-1) ?? ""], schemas);
  return Object.fromEntries(Object.entries(rest).map(([name, one]) => [name, inlined(one, schemas)]));
}

it("describes the answers as they are", async () => {
  const { paths, components } = await served();
  const { rest, data } = running();
  const body = {
    ...keyedConnection("ada", { tags: { team: "blue" }, end_user: { id: "u", organization: { id: "o" } } }),
  };
  const header = { headers: { "provider-config-key": "keyed", "connection-id": "ada" } };
  const session = { body: { end_user: { id: "u" }, allowed_integrations: ["keyed"] } };
  const created = await rest("POST", "/connect/sessions", session);
  const token: string = created.body.data.token;
  const metadata = { provider_config_key: "keyed", connection_id: ["ada"], metadata: { a: 1 } };
  const calls: readonly (readonly [method: string, path: string, pattern: string, options?: object])[] = [
    ["POST", "/connections", "/connections", { body }],
    ["GET", "/connections?limit=1", "/connections"],
    ["GET", "/connections/ada?provider_config_key=keyed", "/connections/{id}"],
    ["PATCH", "/connections/ada?provider_config_key=keyed", "/connections/{id}", { body: { tags: {} } }],
    ["PATCH", "/connections/metadata", "/connections/metadata", { body: metadata }],
    ["POST", "/connect/sessions", "/connect/sessions", session],
    ["GET", "/connect/session", "/connect/session", { key: token }],
    ["POST", "/api-auth/api-key/keyed", "/api-auth/api-key/{key}", { key: token, body: { apiKey: "x" } }],
    ["GET", "/integrations", "/integrations"],
    ["GET", "/integrations/calendar?include=webhook,credentials", "/integrations/{key}"],
    ["GET", "/integrations/keyed/functions", "/integrations/{key}/functions"],
    ["GET", "/providers", "/providers"],
    ["GET", "/providers/example-api-key", "/providers/{name}"],
    ["GET", "/sync/status?provider_config_key=keyed", "/sync/status"],
    ["GET", "/records?model=Event", "/records", header],
    ["GET", "/scripts/config", "/scripts/config"],
    ["GET", "/environment-variables", "/environment-variables"],
    ["GET", "/", "/"],
    ["GET", "/health", "/health"],
    ["GET", "/connections/nobody?provider_config_key=keyed", "/connections/{id}"],
    ["GET", "/connections?limit=0", "/connections"],
    ["DELETE", "/connections/ada?provider_config_key=keyed", "/connections/{id}"],
  ];
  for (const [method, path, pattern, options = {}] of calls) {
    const answer = await rest(method, path, options);
    const operation = paths[pattern]?.[method.toLowerCase()];
    const described = operation?.responses[String(answer.status)] as
      | { readonly content?: Readonly<Record<string, { readonly schema: unknown }>> }
      | undefined;
    const schema = described?.content?.["application/json"]?.schema;
    expect(schema, `${method} ${path} answers ${answer.status} at ${data}`).toBeDefined();
    const parsed = z
      .fromJSONSchema(inlined(schema, components.schemas) as Parameters<typeof z.fromJSONSchema>[0])
      .safeParse(answer.body);
    expect(parsed.error?.issues, `${method} ${path}`).toBeUndefined();
  }
});
