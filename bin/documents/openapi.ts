import type { FaultCode } from "../../src/base/fault.ts";
import { faults } from "../../src/base/fault.ts";
import { faultCatalog } from "../../src/base/fault-catalog.ts";
import { version } from "../../src/base/version.ts";
import { scopeName } from "../../src/core/scopes.ts";
import type { FieldShape } from "../../src/data-plane/api/field-shape.ts";
import type { JsonRoute } from "../../src/data-plane/api/json-route.ts";
import { jsonRoutes } from "../../src/data-plane/api/json-routes.ts";
import { fieldMeanings } from "./field-meanings.ts";
import { type OtherRoute, otherRoutes, type RouteText, routeTexts, subjects } from "./route-texts.ts";
import { ref, type Schema, schemas } from "./schemas.ts";

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly security: readonly Schema[];
  readonly parameters?: readonly Schema[];
  readonly requestBody?: Schema;
  readonly responses: Readonly<Record<string, Schema>>;
  readonly "x-latchkey-scope"?: string;
  readonly "x-latchkey-errors"?: readonly string[];
}

export interface OpenApi {
  readonly openapi: string;
  readonly info: Schema;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** Describes every route of the data listener. */
export function openApi(): OpenApi & Schema {
  const named = new Set(jsonRoutes.map(nameOf));
  const stale = Object.keys(routeTexts).filter((name) => !named.has(name));
  if (stale.length > 0) throw new Error(`bin/documents/route-texts.ts describes no route: ${stale.join(", ")}`);
  const operations = [...jsonRoutes.map(operationOf), ...otherRoutes.map(otherOperationOf)];
  const paths: Record<string, Record<string, Operation>> = {};
  for (const { path, method, operation } of operations) {
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Latchkey",
      version,
      description:
        "The JSON routes of the data listener. Send an environment's key as `Authorization: Bearer <key>`. Unknown fields are ignored and named in the header `latchkey-ignored-fields`. Errors have the form of the schema Error, and the header `latchkey-error`.",
    },
    servers: [{ url: "/", description: "The listener that serves this document" }],
    tags: subjects.map((name) => ({ name })),
    paths,
    components: {
      schemas,
      securitySchemes: {
        key: { type: "http", scheme: "bearer", description: "The key of an environment." },
        session: { type: "http", scheme: "bearer", description: "The token of a connect session." },
      },
    },
  };
}

const nameOf = ({ method, path }: Pick<JsonRoute, "method" | "path">): string => `${method} ${path}`;
const templateOf = (path: string): string => path.replace(/:(\w+)/g, "{$1}");

function operationOf(route: JsonRoute) {
  const text = routeTexts[nameOf(route)];
  if (text === undefined) throw new Error(`bin/documents/route-texts.ts lacks ${nameOf(route)}`);
  const query = Object.entries(route.query).map(([name, shape]) => parameterOf(name, shape));
  const operation: Operation = {
    ...commonOf(route, text),
    security: [{ key: [] }],
    "x-latchkey-scope": scopeName(route.scope),
    ...parametersOf([...pathParameters(route.path), ...headersOf(text), ...query]),
    ...(route.body !== undefined && {
      requestBody: {
        required: true,
        content: {
          "application/json": {
            schema: objectOf(route.body),
            ...(text.example !== undefined && { example: text.example }),
          },
        },
      },
    }),
    ...responsesOf(text, [...new Set([...keyErrors, ...inputErrors(route), ...(text.errors ?? [])])]),
  };
  return { path: templateOf(route.path), method: route.method, operation };
}

function otherOperationOf(route: OtherRoute) {
  const query = Object.entries(route.query ?? {}).map(([name, description]) => ({
    ...{ name, in: "query", description, schema: { type: "string" } },
  }));
  const operation: Operation = {
    ...commonOf(route, route),
    security: route.security === "none" ? [] : [{ [route.security]: [] }],
    ...(route.subject === "Proxy" && { "x-latchkey-scope": "proxy" }),
    ...parametersOf([...pathParameters(route.path), ...headersOf(route), ...query]),
    ...(route.body !== undefined && {
      requestBody: { content: { [route.bodyType ?? "application/json"]: { schema: route.body } } },
    }),
    ...responsesOf(route, [...(route.security === "key" ? keyErrors : []), ...(route.errors ?? [])], route.type),
  };
  return { path: templateOf(route.path), method: route.method, operation };
}

/** Errors that every route with a key may answer. */
const keyErrors = ["missing_auth_header", "unknown_key", "missing_scope"];

const inputErrors = ({ query, body }: JsonRoute): string[] => [
  ...(Object.keys(query).length > 0 ? ["invalid_query_params"] : []),
  ...(body === undefined ? [] : ["invalid_body", "invalid_json", "unsupported_media_type"]),
];

const commonOf = ({ method, path }: { readonly method: string; readonly path: string }, text: RouteText) => ({
  operationId:
    [method.toLowerCase(), ...path.split(/[^\w]+/).filter((part) => part !== "")].join("_") +
    (path.endsWith("/") && path !== "/" ? "_" : ""),
  tags: [text.subject],
  summary: text.summary,
  ...(text.description !== undefined && { description: text.description }),
});

const parametersOf = (parameters: readonly Schema[]) => (parameters.length === 0 ? {} : { parameters });

const pathParameters = (path: string): Schema[] =>
  [...path.matchAll(/[:{](\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));

function headersOf({ names }: RouteText): Schema[] {
  if (names === undefined) return [];
  const required = names === "headers";
  const instead = required ? "" : " In place of the field of the body.";
  const header = (name: string, meaning: string) => ({
    name,
    in: "header",
    required,
    description: `${meaning}${instead}`,
    schema: { type: "string" },
  });
  return [header("Provider-Config-Key", "Key of the integration."), header("Connection-Id", "Id of the connection.")];
}

function responsesOf(
  { status = 200, answer, others = {} }: RouteText,
  errors: readonly string[],
  type = "application/json",
): Pick<Operation, "responses" | "x-latchkey-errors"> {
  const content = (schema: Schema) => ({ content: { [type]: { schema } } });
  const isEmpty = status === 204 || status === 303;
  const isRefused = Object.keys(answer).length === 0 && type === "application/json" && !isEmpty;
  const byStatus = Map.groupBy(errors, (code) => String(faults[code as FaultCode].status));
  return {
    responses: {
      ...(isRefused
        ? {}
        : {
            [status]: {
              description: typeof answer["description"] === "string" ? answer["description"] : meaningOf(status),
              ...(isEmpty ? {} : content(answer)),
            },
          }),
      ...Object.fromEntries(
        Object.entries(others).map(([other, [meaning, schema]]) => [
          other,
          { description: meaning, ...content(schema) },
        ]),
      ),
      ...Object.fromEntries(
        [...byStatus].map(([other, codes]) => [
          other,
          {
            description: codes.map((code) => `\`${code}\`: ${faultCatalog[code as FaultCode].meaning}`).join(" "),
            content: { "application/json": { schema: ref("Error") } },
          },
        ]),
      ),
      default: { description: "An error of Latchkey.", content: { "application/json": { schema: ref("Error") } } },
    },
    ...(errors.length > 0 && { "x-latchkey-errors": errors }),
  };
}

const meaningOf = (status: number): string =>
  ({ 201: "Created.", 204: "Done.", 303: "A redirect." })[status] ?? "Done.";

function describedBy(name: string, { description }: FieldShape): Schema {
  const meaning = description ?? fieldMeanings[name];
  return meaning === undefined ? {} : { description: meaning };
}

function parameterOf(name: string, shape: FieldShape): Schema {
  const isMap = shape.type === "object";
  return {
    name: isMap ? `${name}` : name,
    in: "query",
    ...(shape.required && { required: true }),
    ...describedBy(name, shape),
    // `tags[key]=value`; lists may be repeated or have commas.
    ...(isMap && { style: "deepObject", explode: true }),
    ...(shape.type === "array" && { style: "form", explode: false }),
    schema: isMap ? { type: "object", additionalProperties: { type: "string" } } : schemaOf(shape),
  };
}

function objectOf(fields: Readonly<Record<string, FieldShape>>): Schema {
  const required = Object.entries(fields).flatMap(([name, shape]) => (shape.required ? [name] : []));
  return {
    type: "object",
    properties: Object.fromEntries(
      Object.entries(fields).map(([name, shape]) => [name, { ...describedBy(name, shape), ...schemaOf(shape) }]),
    ),
    ...(required.length > 0 && { required }),
  };
}

function schemaOf(shape: FieldShape): Schema {
  const { type, oneOf, maxLength, min, max, fallback, items, maxItems, fields, values, description } = shape;
  return {
    ...(type === "any" ? {} : { type }),
    ...(description !== undefined && { description }),
    ...(oneOf !== undefined && { enum: oneOf }),
    ...(maxLength !== undefined && { maxLength }),
    ...(min !== undefined && { minimum: min }),
    ...(max !== undefined && { maximum: max }),
    ...(fallback !== undefined && { default: fallback }),
    ...(items !== undefined && { items: schemaOf(items) }),
    ...(type === "array" && maxItems !== undefined && { maxItems }),
    ...(fields !== undefined && objectOf(fields)),
    ...(values !== undefined && { additionalProperties: schemaOf(values) }),
  };
}
