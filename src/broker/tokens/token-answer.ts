import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { lifetimeMs, lifetimeUntilMs } from "../../auth/oauth2/token-lifetime.ts";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import type { TokenAnswer } from "../../gen/latchkey/v1/provider_pb.ts";
import { stepsOf, valueAt } from "../../providers/dotted-path.ts";

/** What a token endpoint answered, as it came. */
export interface TokenHttpAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Uint8Array;
}

/** What an answer turned out to be. */
export type TokenReading =
  | { readonly is: "tokens"; readonly tokens: ReadTokens }
  /** An error, whatever the status says. The code is the provider's word, not yet fit to be shown. */
  | { readonly is: "refusal"; readonly code: string | undefined }
  /** Half an answer, or bytes that are no text: a token may have been given, and is lost. */
  | { readonly is: "garbled"; readonly code: string }
  /** As if all were well, with what cannot be used. */
  | { readonly is: "unusable"; readonly code: string };

export type ReadTokens = Omit<Tokens, "dpopKey">;
type TokenFields = Omit<TokenAnswer, "$typeName">;

interface ReadingOptions {
  /** Where things stand in the answer, when not where RFC 6749 has them. */
  readonly at: TokenFields | undefined;
  readonly defaultLifetime: Duration | undefined;
  /** When the request was sent: what is said of time counts from there. */
  readonly sentAtMs: number;
  /** The tokens are to be bound to a key (RFC 9449). */
  readonly isBound: boolean;
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

/** Read leniently where providers differ, and strictly where what is read goes into a header. */
export function readTokenAnswer(answered: TokenHttpAnswer, options: ReadingOptions): TokenReading {
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

/** The object that an answer is, JSON or a form, whatever it is called; else what is wrong with it. */
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
  // A form under another name, as `text/plain` or `text/html`.
  if (value === undefined && /^[A-Za-z0-9_.%-]+=[^\s<>{}]*$/.test(text)) return { is: "object", answer: formIn(text) };
  return { is: "unparsable" };
}

function textOf(body: Uint8Array): string | undefined {
  try {
    // A byte order mark goes, as RFC 8259, section 8.1 lets it.
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

/** An error code, or false where a provider says how it went; undefined where neither is. */
function refusalIn(answer: JsonObject, path: string): { readonly text: string | undefined } | undefined {
  const found = [path === "" ? "error" : path, "error"].map((one) => valueAt(one, answer));
  const text = found.find((value): value is string => typeof value === "string" && value !== "");
  if (text !== undefined) return { text };
  // Slack, and who does as Slack does.
  if (found.includes(false) || answer["ok"] === false) return { text: undefined };
  // An object that says more: its code, where that is where everybody has it.
  const nested = found.find(isObject);
  if (nested === undefined) return undefined;
  const code = [nested["code"], nested["type"]].find((value) => typeof value === "string");
  return { text: typeof code === "string" ? code : undefined };
}

type TokenReadingContext = ReadingOptions & { readonly at: TokenFields };

function readTokens(answer: JsonObject, options: TokenReadingContext): TokenReading {
  const { at, sentAtMs, isBound } = options;
  const accessPath = at.accessToken === "" ? "access_token" : at.accessToken;
  const accessToken = valueAt(accessPath, answer);
  if (accessToken === undefined || accessToken === null) return { is: "unusable", code: "no_token" };
  if (!isSafe(accessToken)) return { is: "unusable", code: "unsafe_token" };
  const refreshToken = present(valueAt(at.refreshToken === "" ? "refresh_token" : at.refreshToken, answer));
  if (refreshToken !== undefined && !isSafe(refreshToken)) return { is: "unusable", code: "unsafe_refresh_token" };
  if (!canBeUsed(typeOf(answer, accessPath), isBound)) return { is: "unusable", code: "token_type" };
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

/** It goes into a header: visible ASCII, and no more of it than a head can carry. */
const isSafe = (value: JsonValue | undefined): value is string =>
  typeof value === "string" && /^[\x21-\x7e]{1,16384}$/.test(value);

/** Empty is how some say that there is none. */
const present = (value: JsonValue | undefined) => (value === null || value === "" ? undefined : value);

/** It stands beside the token, wherever that is. */
function typeOf(answer: JsonObject, accessPath: string): string | undefined {
  const beside = [...(stepsOf(accessPath) ?? []).slice(0, -1), "token_type"];
  const path = beside.map((step) => step.replaceAll(".", "\\.")).join(".");
  const type = [valueAt(path, answer), valueAt("token_type", answer)].find((one) => typeof one === "string");
  return typeof type === "string" ? type.toLowerCase() : undefined;
}

/** Of types that want proof with each request we know one; others call a bearer token `bot`, `user` or nothing. */
const provingTypes = ["mac", "pop", "dpop", "n_a"];

function canBeUsed(type: string | undefined, isBound: boolean): boolean {
  // RFC 9449, section 5: a token that was to be bound and is not is not what was asked for.
  if (isBound) return type === undefined || type === "dpop";
  return type === undefined || !provingTypes.includes(type);
}

function lifetimeIn(answer: JsonObject, options: TokenReadingContext): number | undefined {
  const { at, sentAtMs, defaultLifetime } = options;
  const until =
    at.expiresAt === "" ? undefined : lifetimeUntilMs(valueAt(at.expiresAt, answer), at.expiresAtUnit, sentAtMs);
  const path = at.expiresIn === "" ? "expires_in" : at.expiresIn;
  const said = until ?? lifetimeMs(valueAt(path, answer), at.expiresInUnit);
  return said ?? (defaultLifetime === undefined ? undefined : durationMs(defaultLifetime));
}

/** The scopes that a provider's answer names, as text or as a list; undefined: none. */
export function scopesIn(value: JsonValue | undefined): readonly string[] | undefined {
  const scopes = Array.isArray(value)
    ? value.filter((one): one is string => typeof one === "string" && one !== "")
    : typeof value === "string"
      ? value.split(/[\s,]+/).filter((one) => one !== "")
      : [];
  return scopes.length === 0 ? undefined : [...new Set(scopes)];
}

/** Fields of the answer, by the names under which they are filed. What is not there is not filed. */
function filed(paths: Readonly<Record<string, string>>, answer: JsonObject): JsonObject {
  const found = Object.entries(paths).map(([name, path]): [string, JsonValue | undefined] => [
    name,
    valueAt(path, answer),
  ]);
  return Object.fromEntries(found.filter((one): one is [string, JsonValue] => one[1] !== undefined && one[1] !== null));
}
