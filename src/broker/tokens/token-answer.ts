import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { lifetimeMs, lifetimeUntilMs } from "../../auth/oauth2/token-lifetime.ts";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import type { TokenAnswer } from "../../gen/latchkey/v1/provider_pb.ts";
import { stepsOf, valueAt } from "../../providers/dotted-path.ts";

/** The response of a token endpoint, as received. */
export interface TokenHttpAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Uint8Array;
}

/** The result of reading a response. */
export type TokenReading =
  | { readonly is: "tokens"; readonly tokens: ReadTokens }
  /** An error, whatever the status. The code is the provider's text and not yet safe to show. */
  | { readonly is: "refusal"; readonly code: string | undefined }
  /** A truncated response, or bytes that are not text: an issued token may be lost. */
  | { readonly is: "garbled"; readonly code: string }
  /** A success response with unusable content. */
  | { readonly is: "unusable"; readonly code: string };

export type ReadTokens = Omit<Tokens, "dpopKey">;
type TokenFields = Omit<TokenAnswer, "$typeName">;

export interface TokenReadingOptions {
  /** Paths of the fields in the response, if not those of RFC 6749. */
  readonly at: TokenFields | undefined;
  readonly defaultLifetime: Duration | undefined;
  /** Time when the request was sent; lifetimes count from this time. */
  readonly sentAtMs: number;
  /** True if the tokens are to be bound to a key (RFC 9449). */
  readonly isBound: boolean;
  /** True if the token is to be an assertion for another server, whose type is `N_A` (RFC 8693, section 2.2.1). */
  readonly isAssertion?: boolean;
  /** The access token so far, for a response that need not contain one. */
  readonly known?: string;
}

const nothing: TokenFields = {
  accessToken: "",
  refreshToken: "",
  expiresIn: "",
  expiresInUnit: "",
  scope: "",
  connectionConfig: {},
  metadata: {},
  error: "",
  expiresAt: "",
  expiresAtUnit: "",
  refreshTokenExpiresIn: "",
};

/** Reads a response: leniently where providers differ, strictly where a value goes into a header. */
export function readTokenAnswer(answered: TokenHttpAnswer, options: TokenReadingOptions): TokenReading {
  const { at = nothing } = options;
  const isSuccess = answered.status >= 200 && answered.status < 300;
  const parsed = parseAnswer(answered);
  if (parsed.is !== "object") {
    if (!isSuccess) return { is: "refusal", code: undefined };
    return parsed.is === "page" ? { is: "unusable", code: "html" } : { is: "garbled", code: parsed.is };
  }
  const { answer } = parsed;
  const code = refusalIn(answer, at.error);
  if (!isSuccess || code !== undefined) return { is: "refusal", code: code?.text };
  return readTokens(answer, { ...options, at });
}

/** A response parsed as an object, from JSON or a form whatever its content type; otherwise the problem. */
type ParsedAnswer =
  | { readonly is: "object"; readonly answer: JsonObject }
  | { readonly is: "page" | "empty" | "invalid_utf8" | "unparsable" };

export function parseAnswer({ contentType = "", body }: Omit<TokenHttpAnswer, "status">): ParsedAnswer {
  const text = textOf(body);
  if (text === undefined) return { is: "invalid_utf8" };
  if (text === "") return { is: "empty" };
  const type = contentType.split(";")[0]?.trim().toLowerCase() ?? "";
  if (type === "application/x-www-form-urlencoded") return { is: "object", answer: formIn(text) };
  const value = jsonIn(text);
  if (isObject(value)) return { is: "object", answer: value };
  if (value === undefined && text.startsWith("<")) return { is: "page" };
  // A form with another content type, such as `text/plain` or `text/html`.
  if (value === undefined && /^[A-Za-z0-9_.%-]+=[^\s<>{}]*$/.test(text)) return { is: "object", answer: formIn(text) };
  return { is: "unparsable" };
}

function textOf(body: Uint8Array): string | undefined {
  try {
    // Drop a byte order mark, as RFC 8259, section 8.1 allows.
    return new TextDecoder("utf-8", { fatal: true }).decode(body).trim();
  } catch {
    return undefined;
  }
}

function jsonIn(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}

const formIn = (text: string): JsonObject => Object.fromEntries(new URLSearchParams(text));

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the error code, or a refusal without text if the provider sent `false`; undefined if there is no error. */
function refusalIn(answer: JsonObject, path: string): { readonly text: string | undefined } | undefined {
  const found = [path === "" ? "error" : path, "error"].map((one) => valueAt(one, answer));
  const text = found.find((value): value is string => typeof value === "string" && value !== "");
  if (text !== undefined) return { text };
  // Facebook's and TikTok's codes are numbers; 0 is a success.
  const number = found.find((value) => typeof value === "number" && value !== 0);
  if (number !== undefined) return { text: String(number) };
  // The format of Slack and of providers that copy it.
  if (found.includes(false) || answer["ok"] === false) return { text: undefined };
  // An error object with details: use its code, if it is in the usual field.
  const nested = found.find(isObject);
  if (nested === undefined) return undefined;
  const code = [nested["code"], nested["type"]].find((value) => typeof value === "string");
  return { text: typeof code === "string" ? code : undefined };
}

type TokenReadingContext = TokenReadingOptions & { readonly at: TokenFields };

function readTokens(answer: JsonObject, options: TokenReadingContext): TokenReading {
  const { at, sentAtMs, isBound, isAssertion = false } = options;
  const accessPath = at.accessToken === "" ? "access_token" : at.accessToken;
  const found = valueAt(accessPath, answer);
  const accessToken = options.known === undefined ? (found ?? undefined) : (present(found) ?? options.known);
  if (accessToken === undefined) return { is: "unusable", code: "no_token" };
  if (!isSafe(accessToken)) return { is: "unusable", code: "unsafe_token" };
  const refreshToken = present(valueAt(at.refreshToken === "" ? "refresh_token" : at.refreshToken, answer));
  if (refreshToken !== undefined && !isSafe(refreshToken)) return { is: "unusable", code: "unsafe_refresh_token" };
  const type = typeOf(answer, accessPath);
  if (!(isAssertion ? type === "n_a" : canBeUsed(type, isBound))) return { is: "unusable", code: "token_type" };
  const idToken = valueAt("id_token", answer);
  const lifetime = lifetimeIn(answer, options);
  const refreshPath = at.refreshTokenExpiresIn === "" ? "refresh_token_expires_in" : at.refreshTokenExpiresIn;
  const refreshLifetime = lifetimeMs(valueAt(refreshPath, answer), at.expiresInUnit);
  return {
    is: "tokens",
    tokens: {
      accessToken,
      refreshToken,
      expiresAtMs: lifetime === undefined ? undefined : sentAtMs + lifetime,
      refreshExpiresAtMs: refreshLifetime === undefined ? undefined : sentAtMs + refreshLifetime,
      scopes: scopesIn(valueAt(at.scope === "" ? "scope" : at.scope, answer)),
      raw: answer,
      connectionConfig: filed(at.connectionConfig, answer),
      metadata: filed(at.metadata, answer),
      idToken: isSafe(idToken) ? idToken : undefined,
    },
  };
}

/** Checks a token that goes into a header: visible ASCII, and no longer than a request head can carry. */
const isSafe = (value: JsonValue | undefined): value is string =>
  typeof value === "string" && /^[\x21-\x7e]{1,16384}$/.test(value);

/** Treats an empty value as missing, because some providers send empty text for no token. */
const present = (value: JsonValue | undefined) => (value === null || value === "" ? undefined : value);

/** Finds the token type, which is next to the token wherever that is. */
function typeOf(answer: JsonObject, accessPath: string): string | undefined {
  const beside = [...(stepsOf(accessPath) ?? []).slice(0, -1), "token_type"];
  const path = beside.map((step) => step.replaceAll(".", "\\.")).join(".");
  const type = [valueAt(path, answer), valueAt("token_type", answer)].find((one) => typeof one === "string");
  return typeof type === "string" ? type.toLowerCase() : undefined;
}

/**
 * Token types that need a proof with each request; we support one. Other types are bearer tokens, called `bot`, `user`
 * or nothing.
 */
const provingTypes = ["mac", "pop", "dpop", "n_a"];

function canBeUsed(type: string | undefined, isBound: boolean): boolean {
  // RFC 9449, section 5: an unbound token where a bound one was requested is not acceptable.
  if (isBound) return type === undefined || type === "dpop";
  return type === undefined || !provingTypes.includes(type);
}

function lifetimeIn(answer: JsonObject, options: TokenReadingContext): number | undefined {
  const { at, sentAtMs, defaultLifetime } = options;
  const until =
    at.expiresAt === "" ? undefined : lifetimeUntilMs(valueAt(at.expiresAt, answer), at.expiresAtUnit, sentAtMs);
  const path = at.expiresIn === "" ? "expires_in" : at.expiresIn;
  const stated = until ?? lifetimeMs(valueAt(path, answer), at.expiresInUnit);
  return stated ?? (defaultLifetime === undefined ? undefined : durationMs(defaultLifetime));
}

/** Returns the scopes in a provider's response, as text or as a list; undefined if there are none. */
export function scopesIn(value: JsonValue | undefined): readonly string[] | undefined {
  const scopes = Array.isArray(value)
    ? value.filter((one): one is string => typeof one === "string" && one !== "")
    : typeof value === "string"
      ? value.split(/[\s,]+/).filter((one) => one !== "")
      : [];
  return scopes.length === 0 ? undefined : [...new Set(scopes)];
}

/** Returns fields of the response under the names for storing them. Missing fields are omitted. */
function filed(paths: Readonly<Record<string, string>>, answer: JsonObject): JsonObject {
  const found = Object.entries(paths).map(([name, path]): [string, JsonValue | undefined] => [
    name,
    valueAt(path, answer),
  ]);
  return Object.fromEntries(found.filter((one): one is [string, JsonValue] => one[1] !== undefined && one[1] !== null));
}
