import { code, generatedNote, page, sentence, table } from "./markdown.ts";
import type { OpenApi, Operation } from "./openapi.ts";
import { subjects } from "./route-texts.ts";

interface ListedRoute {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** docs/api.md: authentication, paging and errors once, then all routes by subject. */
export function apiPage({ paths }: OpenApi): string {
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return page(
    generatedNote,
    "# JSON API",
    "This page lists every route of the data listener.",
    "Schemas and examples are in [openapi.json](openapi.json), which Latchkey also serves at `/openapi.json`. Nango's published SDKs `@nangohq/node` and `@nangohq/frontend` call these routes: set their `host` to Latchkey.",
    "## Authentication",
    `Send the key of an environment:

\`\`\`sh
curl -s http://127.0.0.1:3003/connections -H "Authorization: Bearer $KEY"
\`\`\`

- A key belongs to one environment, and gives no access to another one. The tables name the scope that each route needs.
- The routes for browsers take the token of a connect session instead.
- The proxy also takes the key in \`latchkey-key\` or \`Proxy-Authorization\`; see [calling APIs](calling-apis.md).
- Control keys are for the [RPC API](rpc/README.md). Here they may only read providers.`,
    "## Requests",
    `- Bodies are JSON in UTF-8: send \`Content-Type: application/json\`. The limit is 512 KiB (\`limits.json_body_bytes\`).
- Unknown fields and parameters are ignored. The answer names them in the header \`latchkey-ignored-fields\`, and the log warns once a minute for each route.
- Under \`latchkey dev\`, an unknown field that is close to a known one is refused: \`unknown field "conection_id"; did you mean "connection_id"?\`.
- Times are ISO 8601 in UTC with milliseconds. New fields may be added to answers at any time.`,
    "## Paging",
    `- \`GET /connections\` and \`GET /records\` take \`limit\` and \`cursor\`, and answer \`next_cursor\`. If it is missing or null, the page is the last.
- \`GET /connections\` takes \`page\` (from 0) instead of a cursor, too.
- Large pages may hold fewer entries than \`limit\`: follow \`next_cursor\`.`,
    "## Errors",
    `\`{"error": {"code", "message", "hint"?, "doc_url", "errors"?}}\`, and the header \`latchkey-error: <code>\`. [Errors](errors.md) explains each code. Every route with a key may answer \`missing_auth_header\`, \`malformed_auth_header\`, \`unknown_key\`, \`missing_scope\`, \`overloaded\` and \`store_unavailable\`. One with parameters or a body may answer \`invalid_query_params\`, \`invalid_body\`, \`invalid_json\` and \`unsupported_media_type\`.`,
    ...subjects.map((subject) => section(subject, routes)),
    "## Routes of your scripts",
    "A sync or an action may declare a route of its own, such as `GET /calendar/events`; see [syncs and actions](syncs-and-actions.md).",
    "Next: [errors](errors.md), [the RPC API](rpc/README.md), [SDKs](sdks.md).",
  );
}

const common = new Set([
  ...["missing_auth_header", "unknown_key", "missing_scope"],
  ...["invalid_query_params", "invalid_body", "invalid_json", "unsupported_media_type"],
]);

function section(subject: string, routes: readonly ListedRoute[]): string {
  const rows = routes
    .filter(({ operation }) => operation.tags.includes(subject))
    .map(({ method, path, operation }) => ({
      route: code(`${method} ${path}`),
      // Equal rows are one: some routes have two spellings, and the proxy takes every method.
      cells: [
        accessOf(operation),
        [sentence(operation.summary), operation.description ?? ""].join(" ").trim(),
        fieldsOf(operation),
        errorsOf(operation),
      ],
    }));
  const merged = [...Map.groupBy(rows, ({ cells }) => cells.join("|")).values()].map((same) => {
    const [access = "", ...cells] = same[0]?.cells ?? [];
    return [[...same.map(({ route }) => route), access].join("<br>"), ...cells];
  });
  return page(
    `## ${subject}`,
    table(["Route and scope", "What it does", "Parameters and fields", "Errors"], merged),
  ).trimEnd();
}

const errorsOf = ({ "x-latchkey-errors": errors = [] }: Operation): string =>
  errors
    .filter((one) => !common.has(one))
    .map((one) => `[${code(one)}](errors.md#${one})`)
    .join(", ") || "–";

function accessOf({ security, "x-latchkey-scope": scope }: Operation): string {
  if (scope !== undefined) return `scope ${code(scope)}`;
  return security.length === 0 ? "no key" : "session token";
}

/** Names of parameters and fields; those that are required in bold. */
function fieldsOf({ parameters = [], requestBody }: Operation): string {
  const parts = ["path", "header", "query"].flatMap((place) => {
    const found = parameters.filter((one) => one["in"] === place);
    if (found.length === 0 || place === "path") return [];
    return [`${place}: ${found.map((one) => shown(String(one["name"]), one["required"] === true)).join(", ")}`];
  });
  const content = requestBody?.["content"] as Record<string, { readonly schema?: BodySchema }> | undefined;
  const schema = content?.["application/json"]?.schema;
  const fields = Object.keys(schema?.properties ?? {});
  if (fields.length > 0) {
    parts.push(`body: ${fields.map((name) => shown(name, schema?.required?.includes(name) === true)).join(", ")}`);
  }
  return parts.join("<br>") || "–";
}

interface BodySchema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly required?: readonly string[];
}

const shown = (name: string, isRequired: boolean): string => (isRequired ? `**${code(name)}**` : code(name));
