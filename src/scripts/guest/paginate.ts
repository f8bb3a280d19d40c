import type { Pagination, ProxyConfiguration, ProxyResponse } from "../sdk.ts";
import { URL } from "./url.ts";

export type SendRequest = (config: ProxyConfiguration) => Promise<ProxyResponse>;
type PageFields = Record<string, unknown>;

/** Fetches page after page; options of the call override those of the provider's description. */
export async function* paginate(
  config: ProxyConfiguration,
  usual: Partial<Pagination> | undefined,
  send: SendRequest,
): AsyncGenerator<unknown[], undefined, void> {
  const how = { ...usual, ...config.paginate } as Partial<Pagination>;
  const inBody = how.in_body ?? /^(post|put|patch)$/i.test(config.method ?? "GET");
  const { paginate: _, ...rest } = config;
  const start = fieldsOf(inBody ? config.data : config.params);
  if (how.limit !== undefined && how.limit_name_in_request !== undefined) {
    put(start, how.limit_name_in_request, how.limit, inBody);
  }
  const page = (fields: PageFields): Promise<ProxyResponse> =>
    send({ ...rest, ...(inBody ? { data: fields } : { params: fields as ProxyConfiguration["params"] & object }) });
  if (how.type === "cursor") yield* byCursor(how, start, inBody, page);
  else if (how.type === "offset") yield* byOffset(how, start, inBody, page);
  else if (how.type === "link") yield* byLink(how, page(start), rest, inBody, start, send);
  else if (how.type === undefined)
    throw new Error("nango.paginate: `paginate` must be set, because the provider declares no pagination");
  else throw new Error(`nango.paginate: \`type\` must be cursor, link or offset, not "${how.type}"`);
  return undefined;
}

type FetchPage = (fields: PageFields) => Promise<ProxyResponse>;

async function* byCursor(how: Partial<Pagination>, start: PageFields, inBody: boolean, page: FetchPage) {
  const name = required(how, "cursor_name_in_request");
  const lastItem = how.cursor_path_in_last_item;
  const path = lastItem ?? required(how, "cursor_path_in_response");
  const fields = start;
  for (;;) {
    const response = await page(fields);
    const list = listOf(response, how);
    if (list.length === 0) return;
    yield list;
    const found = at(lastItem === undefined ? response.data : list.at(-1), path);
    const next = typeof found === "string" ? found.trim() : found;
    const isLast = (typeof next !== "number" && (typeof next !== "string" || next === "")) || isLastPage(how, response);
    await how.on_page?.({ nextPageParam: isLast ? undefined : next, response });
    if (isLast) return;
    put(fields, name, next, inBody);
  }
}

async function* byOffset(how: Partial<Pagination>, start: PageFields, inBody: boolean, page: FetchPage) {
  const name = required(how, "offset_name_in_request");
  const fields = start;
  let offset = Number(how.offset_start_value ?? 0);
  for (;;) {
    put(fields, name, inBody ? offset : String(offset), inBody);
    const response = await page(fields);
    const list = listOf(response, how);
    if (list.length === 0) return;
    yield list;
    if (how.limit !== undefined && list.length < Number(how.limit)) return;
    offset += how.offset_calculation_method === "per-page" ? 1 : list.length;
    await how.on_page?.({ nextPageParam: offset, response });
  }
}

async function* byLink(
  how: Partial<Pagination>,
  first: Promise<ProxyResponse>,
  rest: ProxyConfiguration,
  inBody: boolean,
  start: PageFields,
  send: SendRequest,
) {
  if (how.link_rel_in_response_header === undefined && how.link_path_in_response_body === undefined) {
    await first;
    throw new Error(
      "nango.paginate: `link_rel_in_response_header` or `link_path_in_response_body` must be set for links",
    );
  }
  let response = await first;
  let before: string | undefined;
  for (;;) {
    const list = listOf(response, how);
    if (list.length > 0) yield list;
    const next = isLastPage(how, response) ? undefined : nextLink(how, response);
    await how.on_page?.({ nextPageParam: next, response });
    if (next === undefined || next === "" || next === before) return;
    before = next;
    const { params: __, ...same } = rest;
    const body = inBody ? { data: start } : {};
    if (!URL.canParse(next)) response = await send({ ...same, ...body, endpoint: next });
    else {
      const url = new URL(next) as unknown as { origin: string; pathname: string; search: string };
      response = await send({ ...same, ...body, baseUrlOverride: url.origin, endpoint: url.pathname + url.search });
    }
  }
}

function nextLink(how: Partial<Pagination>, { data, headers }: ProxyResponse): string | undefined {
  if (how.link_rel_in_response_header !== undefined) return linkOf(headers["link"], how.link_rel_in_response_header);
  const found = at(data, how.link_path_in_response_body ?? "");
  return typeof found === "string" ? found : undefined;
}

/** Parses RFC 8288: `<https://…?page=2>; rel="next", <…>; rel="last"`. */
export function linkOf(header: string | undefined, rel: string): string | undefined {
  for (const [, url, params = ""] of (header ?? "").matchAll(
    /<([^>]*)>((?:\s*;\s*[^=;,\s]+(?:=(?:"[^"]*"|[^;,\s]*))?)*)/g,
  )) {
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^;,\s]*))/i.exec(params) ?? [];
    if ((quoted ?? bare ?? "").split(/\s+/).includes(rel)) return url;
  }
  return undefined;
}

function listOf({ data }: ProxyResponse, { response_path: path }: Partial<Pagination>): unknown[] {
  const list = path === undefined || path === "" ? data : at(data, path);
  if (list === undefined || list === null || list === "") return [];
  if (!Array.isArray(list))
    throw new Error(
      path === undefined
        ? "nango.paginate: the response is no list; set `response_path` to the list in it"
        : `nango.paginate: the response has no list at \`response_path\` "${path}"`,
    );
  return list;
}

/** Whether a response says itself that no page follows. */
const isLastPage = ({ has_more_path: path }: Partial<Pagination>, { data }: ProxyResponse): boolean =>
  path !== undefined && at(data, path) === false;

/** A dot within a name is written `\.`, as in a provider's description. */
const keysOf = (path: string): string[] =>
  path
    .replaceAll(/\[(\w+)\]/g, ".$1")
    .split(/(?<!\\)\./)
    .map((key) => key.replaceAll("\\.", "."));

/** Tries the path as a single name first, since names may contain dots. */
function at(data: unknown, path: string): unknown {
  const own = (value: unknown, key: string): unknown =>
    typeof value === "object" && value !== null && Object.hasOwn(value, key) ? (value as PageFields)[key] : undefined;
  return own(data, path) ?? keysOf(path).reduce(own, data);
}

/** Sets a field; in a body, `page.cursor` is a nested field. */
function put(fields: PageFields, path: string, value: unknown, inBody: boolean): void {
  const keys = inBody ? keysOf(path) : [path];
  const last = keys.pop() ?? path;
  let into = fields;
  for (const key of keys) {
    const held = Object.hasOwn(into, key) ? into[key] : undefined;
    const next = typeof held === "object" && held !== null ? { ...held } : {};
    Object.defineProperty(into, key, { value: next, writable: true, enumerable: true, configurable: true });
    into = next as PageFields;
  }
  into[last] = value;
}

function fieldsOf(given: unknown): PageFields {
  if (typeof given === "string") return Object.fromEntries(new URLSearchParams(given));
  return { ...(given as PageFields | undefined) };
}

function required(
  how: Partial<Pagination>,
  name: "cursor_name_in_request" | "cursor_path_in_response" | "offset_name_in_request",
): string {
  const value = how[name];
  if (value === undefined || value === "")
    throw new Error(`nango.paginate: \`${name}\` must be set for type ${how.type}`);
  return value;
}
