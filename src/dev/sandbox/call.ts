import type { IncomingHttpHeaders } from "node:http";

/** A request and its whole body. */
export interface Call {
  readonly method: string;
  /** The target as sent in the request line: signatures cover it byte for byte. */
  readonly target: string;
  /** The decoded segments that match the `:name` parts of the route's path. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface SandboxAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Streams the body instead: each piece is written once the client has read the one before. */
  readonly pieces?: (signal: AbortSignal) => AsyncIterable<string | Uint8Array>;
}

/** An error that carries the answer to a request. */
export class SandboxRefusal extends Error {
  override readonly name = "Refusal";
  readonly answer: SandboxAnswer;

  constructor(answer: SandboxAnswer, message = `refused with ${answer.status}`) {
    super(message);
    this.answer = answer;
  }
}

export const json = (value: unknown, { status = 200, headers = {} }: Partial<SandboxAnswer> = {}): SandboxAnswer => ({
  status,
  headers: { "content-type": "application/json; charset=utf-8", ...headers },
  body: JSON.stringify(value),
});

/** The error body of the APIs: a status, a message, and a reason for programs. */
export function apiError(
  status: number,
  reason: string,
  message: string,
  headers: SandboxAnswer["headers"] = {},
): SandboxAnswer {
  const error = { code: status, message, errors: [{ domain: "global", reason, message }] };
  return json({ error }, { status, headers });
}

export const refuse = (...error: Parameters<typeof apiError>): SandboxRefusal =>
  new SandboxRefusal(apiError(...error), error[2]);

/** RFC 6749, section 5.2. A cache may store neither tokens nor their errors (section 5.1). */
export function oauthError(
  status: number,
  error: string,
  description = "",
  headers: SandboxAnswer["headers"] = {},
): SandboxAnswer {
  const body = { error, ...(description === "" ? {} : { error_description: description }) };
  return json(body, { status, headers: { "cache-control": "no-store", ...headers } });
}

export const refuseOAuth = (...error: Parameters<typeof oauthError>): SandboxRefusal =>
  new SandboxRefusal(oauthError(...error));

/** Returns the media type without its parameters. */
export const mediaType = ({ headers }: Call): string =>
  (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";

export const formOf = (call: Call): URLSearchParams =>
  new URLSearchParams(mediaType(call) === "application/x-www-form-urlencoded" ? call.body.toString("utf8") : "");

/** Returns the JSON object in the body, or an empty object for an empty body. */
export function objectOf({ body }: Call): Readonly<Record<string, unknown>> {
  if (body.length === 0) return {};
  const value = parsed(body.toString("utf8"));
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw refuse(400, "parseError", "The body must be a JSON object.");
  }
  return { ...value };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    /* The caller refuses this like any other body that is not an object. */
    return undefined;
  }
}

/** Reads a whole number of the query. Throws 400 below `least`; `most` caps it. */
export function numberIn(query: URLSearchParams, name: string, { least, most, otherwise }: NumberBounds): number {
  const text = query.get(name);
  if (text === null || text === "") return otherwise;
  const value = Number(text);
  if (!Number.isInteger(value) || value < least) throw refuse(400, "invalid", `Invalid value for ${name}.`);
  return Math.min(value, most);
}

interface NumberBounds {
  readonly least: number;
  readonly most: number;
  readonly otherwise: number;
}
