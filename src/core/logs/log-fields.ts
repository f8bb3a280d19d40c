import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { type Redact, redacted } from "../secrets/redaction.ts";

/**
 * Every field that a log line may have, with its kind. Fields missing from this table are never logged: `word` is a
 * name or a code; `text` is foreign text, which is shortened and redacted most carefully.
 */
const table = {
  attempt: "number",
  cause: "word",
  code: "word",
  count: "number",
  credentials: "word",
  credentials_expire_at: "time",
  detail: "text",
  failing_since: "time",
  failure: "word",
  failures: "number",
  grant: "word",
  granted_at: "time",
  host: "word",
  key: "word",
  keys: "text",
  last_succeeded_at: "time",
  live_grants: "number",
  message: "text",
  method: "word",
  model: "word",
  most_grants: "number",
  ms: "number",
  next_attempt_at: "time",
  provider: "word",
  publishing: "word",
  reason: "word",
  retry_after_ms: "number",
  scopes: "text",
  script: "word",
  stack: "text",
  state: "word",
  status: "number",
  trigger: "word",
  variant: "word",
  version: "word",
} as const satisfies Readonly<Record<string, LogFieldKind>>;

type LogFieldKind = "number" | "word" | "time" | "text";
/** Times are milliseconds since 1970. */
type ValueOf<K extends LogFieldKind> = K extends "number" | "time" ? number : string;

export type LogFieldValues = { readonly [N in keyof typeof table]?: ValueOf<(typeof table)[N]> | undefined };

const maxWordLength = 128;
export const maxTextLength = 400;
/** Redaction reads more text than is shown, so that the cut never leaves half a secret. */
const maxLookedAt = 4_096;

/** Returns the fields of a line as they are stored. */
export function keptFields(fields: LogFieldValues, redact: Redact): JsonObject {
  const kept: JsonObject = {};
  for (const [name, value] of Object.entries(fields)) {
    const shown = kinds.has(name) && value !== undefined ? keptValue(kinds.get(name), value, redact) : undefined;
    if (shown !== undefined) kept[name] = shown;
  }
  return kept;
}

const kinds: ReadonlyMap<string, LogFieldKind> = new Map(Object.entries(table));

function keptValue(kind: LogFieldKind | undefined, value: unknown, redact: Redact): JsonValue | undefined {
  if (kind === "number") return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  if (kind === "time") return typeof value === "number" ? isoOf(value) : undefined;
  if (typeof value !== "string" || value === "") return undefined;
  if (kind === "text") return keptText(value, redact);
  const isWord = value.length <= maxWordLength && /^[\x21-\x7e]+$/.test(value);
  return isWord ? redact(value) : redacted;
}

function isoOf(ms: number): string | undefined {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/** Returns foreign text on one line, without secrets, and shortened. */
export function keptText(text: string, redact: Redact): string {
  const isLong = text.length > maxLookedAt;
  // The last word may be cut in half: drop it.
  const looked = isLong ? text.slice(0, maxLookedAt).replace(/\S*$/, "") : text;
  const shown = redact(looked)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .trim();
  return shown.length <= maxTextLength && !isLong ? shown : `${shown.slice(0, maxTextLength).trimEnd()}…`;
}
