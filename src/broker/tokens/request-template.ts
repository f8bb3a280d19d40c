import type { JsonValue } from "@bufbuild/protobuf";
import type { ReadValue } from "../../core/outgoing/placeholder-values.ts";
import type { RequestTemplate } from "../../gen/latchkey/v1/provider_pb.ts";

/** A request from a provider's description, filled in with a connection's values. */
export interface FilledRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Empty if there is no body. */
  readonly body: string;
  /** The content type of a body. */
  readonly contentType: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
}

const place = /\$\{([^}]+)\}/g;

/** Visible ASCII, with blanks only within. */
const sendable = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Fills a request; undefined if a value is missing, in which case the request must not be sent. */
export function filledRequest(template: RequestTemplate, read: ReadValue): FilledRequest | undefined {
  const { path, body } = template;
  const filledBody = template.format === "form" ? filledForm(body, read, "refuse") : filledText(body, read, inJson);
  return filledBody === undefined ? undefined : withBody(template, filledText(path, read, inPath), filledBody, read);
}

/** Values that a channel request may use besides a connection's values; undefined if there is no such value. */
export interface ChannelValues extends Readonly<Partial<Record<ChannelValueName, string | undefined>>> {
  /** The channels that one renewal or stop names. */
  readonly ids?: readonly string[] | undefined;
}

type ChannelValueName =
  | "id"
  | "idNumber"
  | "providerId"
  | "address"
  | "token"
  | "expiration"
  | "expirationSeconds"
  | "expirationIso"
  | "lifetimeSeconds"
  | "position"
  | "resource"
  | "resourceId";

/** Stands for the list of IDs where it is a whole JSON text. */
const listPlace = "${ids}";

/**
 * Fills a channel request. Omits a body field whose value is missing: the provider must not get an expiration that is
 * the text "undefined", or empty. Returns undefined if the path or a header uses a missing value.
 */
export function filledChannelRequest(
  template: RequestTemplate,
  readOther: ReadValue,
  { ids, ...values }: ChannelValues,
): FilledRequest | undefined {
  const { path } = template;
  const given = new Map<string, string | undefined>([...Object.entries(values), ["ids", ids?.join(",")]]);
  const read: ReadValue = (name) => (given.has(name) ? given.get(name) : readOther(name));
  return withBody(template, filledText(path, read, inPath), filledChannelBody(template, { read, ids }), read);
}

interface ChannelBodyValues {
  readonly read: ReadValue;
  readonly ids: readonly string[] | undefined;
}

function filledChannelBody({ body, format }: RequestTemplate, { read, ids }: ChannelBodyValues): string {
  if (body === "") return "";
  if (format === "form") return filledForm(body, read, "omit") ?? "";
  // The template is valid JSON: the validation of descriptions ensures this.
  return JSON.stringify(filledJson(JSON.parse(body) as JsonValue, { read, ids }) ?? null);
}

/** Some providers write the IDs of channels as numbers, and refuse them as texts. */
const listOf = (ids: readonly string[]): JsonValue => (ids.every(isExact) ? ids.map(Number) : [...ids]);

const isExact = (id: string): boolean => /^(0|[1-9]\d{0,15})$/.test(id) && Number.isSafeInteger(Number(id));

function withBody(
  template: RequestTemplate,
  path: string | undefined,
  body: string,
  read: ReadValue,
): FilledRequest | undefined {
  const headers = filledHeaders(template, read);
  if (path === undefined || headers === undefined) return undefined;
  const contentType = template.format === "form" ? "application/x-www-form-urlencoded" : "application/json";
  return { method: template.method || "GET", path, body, contentType, headers };
}

function filledHeaders({ headers }: RequestTemplate, read: ReadValue): readonly string[] | undefined {
  const pairs: string[] = [];
  for (const [name, template] of Object.entries(headers)) {
    const value = filledText(template, read, inHeader);
    if (value === undefined) return undefined;
    pairs.push(name, value);
  }
  return pairs;
}

/** Writes a value for its place; undefined if it must not stand there. */
type WriteValue = (value: string) => string | undefined;

/** `.` and `..` are not valid path segments, in any encoding. */
const inPath: WriteValue = (value) => (value === "." || value === ".." ? undefined : encodeURIComponent(value));
const inJson: WriteValue = (value) => JSON.stringify(value).slice(1, -1);
const inHeader: WriteValue = (value) => (sendable.test(value) ? value : undefined);

/** Returns undefined if a value is missing. Filled values are not expanded again. */
function filledText(template: string, read: ReadValue, write: WriteValue): string | undefined {
  let isWhole = true;
  const text = template.replaceAll(place, (_, name: string) => {
    const value = read(name) ?? "";
    const written = value === "" ? undefined : write(value);
    if (written === undefined) isWhole = false;
    return written ?? "";
  });
  return isWhole ? text : undefined;
}

/** Fills the pairs of a form, whose text may have `${…}` as a name or a value. */
function filledForm(body: string, read: ReadValue, missing: "refuse" | "omit"): string | undefined {
  const pairs = body.split("&").map((pair) => filledText(pair, read, encodeURIComponent));
  if (missing === "refuse" && pairs.includes(undefined)) return undefined;
  return pairs.filter((pair) => pair !== undefined).join("&");
}

/**
 * Returns undefined if a value is missing. Fills in values after parsing, so that no value can break out of its text.
 */
function filledJson(value: JsonValue, values: ChannelBodyValues): JsonValue | undefined {
  if (typeof value === "string") {
    const { read, ids } = values;
    if (value === listPlace) return ids === undefined ? undefined : listOf(ids);
    const names = [...value.matchAll(place)].map(([, name = ""]) => name);
    if (names.some((name) => read(name) === undefined)) return undefined;
    return value.replaceAll(place, (_, name: string) => read(name) ?? "");
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => filledJson(one, values)).filter((one) => one !== undefined);
  const fields = Object.entries(value).map(([name, one]) => [name, filledJson(one, values)] as const);
  return Object.fromEntries(fields.filter((field): field is [string, JsonValue] => field[1] !== undefined));
}

/** Whether a request contains a value of the connection. */
export const namesValue = (request: RequestTemplate | undefined, name: string): boolean =>
  [request?.path, request?.body, ...Object.values(request?.headers ?? {})].some(
    (text) => text?.includes(`\${connectionConfig.${name}}`) === true,
  );
