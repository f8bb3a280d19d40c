import { hintFor } from "./globals.ts";
import { detailsOf } from "./port.ts";
import { SchemaError } from "./schemas.ts";

/** An error as words and JSON: the error object itself never leaves the sandbox. */
export interface Report {
  readonly code: string;
  readonly message: string;
  /** The engine's stack, with positions in the bundle, not yet in the customer's files. */
  readonly stack: string;
  readonly payload?: unknown;
  readonly upstream?: UpstreamReport;
}

interface UpstreamReport {
  readonly response?: { readonly status: number; readonly headers: object; readonly body: unknown };
}

/** Limit of a payload, since the proxy's thread parses and redacts it. */
const maxPayload = 64 * 1024;
const maxBody = 16 * 1024;
/** Response headers that a caller can act on. */
const shownHeaders = ["content-type", "retry-after", "www-authenticate", "x-request-id", "request-id"];

const isActionError = (error: { name?: unknown; type?: unknown }) =>
  error.type === "action_script_runtime_error" || error.name === "ActionError";

export function report(thrown: unknown): Report {
  if (typeof thrown !== "object" || thrown === null) {
    return { code: "script_error", message: textOf(thrown), stack: "" };
  }
  const error = thrown as { name?: unknown; type?: unknown; message?: unknown; stack?: unknown; payload?: unknown };
  const stack = typeof error.stack === "string" ? error.stack : "";
  if (error instanceof SchemaError) {
    return { code: error.code, message: error.message, stack, payload: bounded(error.problems, error.message) };
  }
  const message = messageOf(thrown, error);
  if (isActionError(error)) {
    return { code: "action_error", message, stack, payload: bounded(error.payload ?? null, message) };
  }
  if (error.name === "InternalError" && message === "out of memory") return { code: "memory", message, stack };
  const name =
    typeof error.name === "string" && error.name !== "Error" && error.name !== message ? `${error.name}: ` : "";
  const hint = hintFor(message);
  const told = `${name}${message}${hint === undefined ? "" : ` (${hint})`}`;
  const upstream = upstreamOf(error);
  const body = upstream?.response === undefined ? {} : { payload: upstream.response.body };
  return { code: "script_error", message: told, stack, ...body, ...(upstream && { upstream }) };
}

/** Any value can be thrown: one that is no error and has no message is shown as JSON. */
function messageOf(thrown: object, error: { name?: unknown; type?: unknown; message?: unknown }): string {
  if (error.message !== undefined && error.message !== "") return textOf(error.message);
  if (thrown instanceof Error || isActionError(error)) return textOf(error.name);
  return `the script threw ${textOf(thrown)}`;
}

/** Returns the provider's response, if the script did not catch the failure of its request. */
function upstreamOf(error: object): UpstreamReport | undefined {
  const details = detailsOf(error);
  if (details === undefined) return undefined;
  if (details["unanswered"] === true) return {};
  const response = details["response"] as
    | { status: number; headers: Readonly<Record<string, string>>; data?: unknown; dataBase64?: string }
    | undefined;
  if (response === undefined) return undefined;
  const { status, headers, data, dataBase64 } = response;
  const told = Object.fromEntries(Object.entries(headers).filter(([name]) => shownHeaders.includes(name)));
  return { response: { status, headers: told, body: boundedBody(data ?? dataBase64 ?? "") } };
}

function boundedBody(data: unknown): unknown {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  return text.length <= maxBody ? data : `${text.slice(0, maxBody)}… (cut: ${text.length} characters)`;
}

/** Returns the payload, or a summary if it is too large for an error. Throws if it is not JSON. */
function bounded(payload: unknown, message: string): unknown {
  const { length } = JSON.stringify(payload) ?? "null";
  if (length <= maxPayload) return payload;
  return { message: clipped(message), truncated: true, length };
}

const clipped = (text: string): string => (text.length <= 1_024 ? text : `${text.slice(0, 1_024)}…`);

function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return typeof value === "object" ? clipped(JSON.stringify(value) ?? "undefined") : String(value);
  } catch {
    // A cycle or a BigInt, which JSON cannot represent, or an object that throws when read.
    return "a value that JSON cannot represent";
  }
}
