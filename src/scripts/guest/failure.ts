import { hintFor } from "./globals.ts";
import { SchemaError } from "./schemas.ts";

/** What went wrong, in words and JSON: nothing of the error itself leaves. */
export interface Report {
  readonly code: string;
  readonly message: string;
  /** As the engine writes it: of the bundle, not yet of the customer's files. */
  readonly stack: string;
  readonly payload?: unknown;
}

const isActionError = (error: { name?: unknown; type?: unknown }) =>
  error.type === "action_script_runtime_error" || error.name === "ActionError";

export function report(thrown: unknown): Report {
  if (typeof thrown !== "object" || thrown === null) return { code: "script_error", message: said(thrown), stack: "" };
  const error = thrown as { name?: unknown; type?: unknown; message?: unknown; stack?: unknown; payload?: unknown };
  const stack = typeof error.stack === "string" ? error.stack : "";
  if (error instanceof SchemaError) {
    return { code: error.code, message: error.message, stack, payload: error.problems };
  }
  const message = said(error.message === undefined || error.message === "" ? error.name : error.message);
  if (isActionError(error)) return { code: "action_error", message, stack, payload: error.payload ?? null };
  if (error.name === "InternalError" && message === "out of memory") return { code: "memory", message, stack };
  const name =
    typeof error.name === "string" && error.name !== "Error" && error.name !== message ? `${error.name}: ` : "";
  const hint = hintFor(message);
  return { code: "script_error", message: `${name}${message}${hint === undefined ? "" : ` (${hint})`}`, stack };
}

function said(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  } catch {
    // A symbol's description, or an object that does not want to be read.
    return "something was thrown that cannot be put into words";
  }
}
