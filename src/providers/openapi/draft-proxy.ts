import type { DraftPart } from "./draft-auth.ts";
import type { OpenApiDocument, OpenApiOperation, OpenApiServer } from "./openapi-document.ts";

/** Drafts where requests go, and how lists are paginated. */
export function draftProxy({ servers, operations }: OpenApiDocument): DraftPart {
  const [server] = servers.filter(({ url }) => /^https:\/\//.test(url));
  if (server === undefined) {
    const questions = ["Where is the API? The document names no server with https."];
    return { fields: { proxy: { base_url: "" } }, questions };
  }
  const pagination = paginationOf(operations);
  const retry = retryOf(operations);
  return {
    fields: {
      proxy: { base_url: baseUrlOf(server), ...(retry !== undefined && { retry }), ...(pagination && { pagination }) },
      ...(Object.keys(server.variables).length > 0 && { connection_fields: fieldsOf(server) }),
    },
    questions: [
      ...(pagination === undefined ? [] : ["Where in a response are the items, and where is the next cursor?"]),
      ...(Object.keys(server.variables).length > 0
        ? ["Which values may the fields in the URL have? A pattern must keep requests within the provider's hosts."]
        : []),
    ],
  };
}

const baseUrlOf = ({ url }: OpenApiServer): string =>
  url.replace(/\{(\w+)\}/g, "${connectionConfig.$1}").replace(/\/$/, "");

const fieldsOf = ({ variables }: OpenApiServer) =>
  Object.entries(variables).map(([name, value]) => ({
    name,
    title: name,
    description: `The value of ${name} in the address of the API.`,
    example: value || "acme",
    pattern: "[a-z0-9]([a-z0-9\\-]{0,61}[a-z0-9])?",
    required: true,
  }));

/** Query parameters that page, by the kind of pagination, the commonest names first. */
const pagingNames: readonly (readonly [kind: string, names: readonly string[]])[] = [
  [
    "cursor",
    ["cursor", "page_token", "pageToken", "next_cursor", "start_cursor", "after", "starting_after", "page_after"],
  ],
  ["offset", ["offset", "skip", "start", "$skip"]],
];
const limitNames = [
  "limit",
  "per_page",
  "page_size",
  "pageSize",
  "perPage",
  "count",
  "max_results",
  "maxResults",
  "$top",
];

function paginationOf(operations: readonly OpenApiOperation[]) {
  const counts = countOf(operations.filter(({ method }) => method === "GET").flatMap(({ queryNames }) => queryNames));
  for (const [kind, names] of pagingNames) {
    const parameter = mostOf(counts, names);
    if (parameter === undefined) continue;
    const limit = mostOf(counts, limitNames);
    return { kind, parameter, ...(limit !== undefined && { limit_parameter: limit, limit: 100 }) };
  }
  return undefined;
}

/** The header of a 429 that says when to try again, if it is not `retry-after`. */
function retryOf(operations: readonly OpenApiOperation[]) {
  const counts = countOf(operations.flatMap(({ limitHeaders }) => limitHeaders));
  const reset = [...counts.keys()].find((name) => /reset/.test(name));
  return reset === undefined || counts.has("retry-after") ? undefined : { after_header: reset };
}

function countOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The name that is used most; undefined if none is. */
const mostOf = (counts: ReadonlyMap<string, number>, names: readonly string[]): string | undefined =>
  names.filter((name) => counts.has(name)).sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0))[0];

/** Paths that show who the caller is: a good request to verify credentials. */
const identityPath = /\/(me|self|myself|whoami|current_user|account|user|profile)(\.json)?$/;

export function draftVerification({ operations }: OpenApiDocument): DraftPart {
  const found = operations
    .filter(({ method, path }) => method === "GET" && identityPath.test(path) && !path.includes("{"))
    .sort((a, b) => a.path.length - b.path.length)[0];
  if (found === undefined)
    return { fields: {}, questions: ["Which small request tells whether credentials are valid (`verification`)?"] };
  return { fields: { verification: { request: { method: "GET", path: found.path } } }, questions: [] };
}
