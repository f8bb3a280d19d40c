import { TextDecoder } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { findInexact } from "../../core/dialect/exact-json.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { ReceivedNotification } from "../../core/notifications/notification.ts";
import { bodyOf, type FrontRequest } from "../../relay/client/incoming.ts";
import type { BodyRoom } from "./body-room.ts";

interface BodyReading {
  readonly maxBytes: number;
  /** Called when the head is valid: tells a caller that waits for `100 Continue` to send the body. */
  readonly proceed: () => void;
}

/**
 * Reads a JSON object of limited size: UTF-8 without a byte order mark (RFC 8259, section 8.1). Refuses a body with
 * values that parsing would change, such as numbers with too many digits or repeated keys. If a field of the request
 * itself repeats, the last one counts, as in JSON.parse.
 */
export async function readJsonBody(request: FrontRequest, { maxBytes, proceed }: BodyReading): Promise<JsonObject> {
  requireJson(request);
  requireSize(request, maxBytes);
  proceed();
  const bytes = await readBytes(request, maxBytes);
  if (bytes.length === 0) throw new Fault("invalid_body", "the body must be a JSON object");
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    // Errors of JSON.parse quote the body, which may hold secrets.
    throw new Fault("invalid_json", "the body must be JSON in UTF-8");
  }
  if (!isObject(value)) throw new Fault("invalid_body", "the body must be a JSON object");
  const mistakes = findInexact(text);
  if (mistakes.length > 0)
    throw new Fault("invalid_body", "the body has values that would change when stored", { mistakes });
  return value;
}

/** Reads a form: each field once, as text. */
export async function readFormBody(request: FrontRequest, { maxBytes, proceed }: BodyReading): Promise<JsonObject> {
  const [type = ""] = (request.headers["content-type"] ?? "").split(";");
  if (type.trim().toLowerCase() !== "application/x-www-form-urlencoded") {
    throw new Fault(
      "unsupported_media_type",
      "the body must be a form: send Content-Type: application/x-www-form-urlencoded",
    );
  }
  requireSize(request, maxBytes);
  proceed();
  const fields = new URLSearchParams((await readBytes(request, maxBytes)).toString("utf8"));
  for (const name of new Set(fields.keys())) {
    if (fields.getAll(name).length > 1) throw new Fault("invalid_body", "a form field must not be repeated");
  }
  return Object.fromEntries(fields);
}

/** Reads a provider's body byte for byte, unparsed: its signature is over these bytes. */
export async function readReceived(
  request: FrontRequest,
  { query, maxBytes, proceed, room }: BodyReading & { readonly query: string; readonly room: BodyRoom },
): Promise<ReceivedNotification> {
  requireSize(request, maxBytes);
  proceed();
  const headers = headerPairs(request.rawHeaders);
  return { headers, query, body: await readBytes(request, maxBytes, room) };
}

/** Returns the headers in the form of `ReceivedNotification`. */
export function headerPairs(rawHeaders: readonly string[]): ReceivedNotification["headers"] {
  const pairs: (readonly [name: string, value: string])[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) pairs.push([lowerCase(rawHeaders[i] ?? ""), rawHeaders[i + 1] ?? ""]);
  return pairs;
}

/** Reads a whole body. */
export async function readBody(request: FrontRequest, maxBytes: number): Promise<Buffer> {
  requireSize(request, maxBytes);
  return readBytes(request, maxBytes);
}

function requireJson({ headers }: FrontRequest): void {
  const [type = "", ...parameters] = (headers["content-type"] ?? "")
    .split(";")
    .map((part) => part.trim().toLowerCase());
  const charset = parameters.find((one) => /^charset\s*=/.test(one));
  if (type !== "application/json" || (charset !== undefined && !/^charset="?utf-8"?$/.test(charset))) {
    const sent = headers["content-type"] === undefined ? "none" : JSON.stringify(headers["content-type"].slice(0, 100));
    throw new Fault(
      "unsupported_media_type",
      `the body must be JSON in UTF-8: send Content-Type: application/json; this request has ${sent}`,
    );
  }
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    throw new Fault("unsupported_media_type", "the body must not be compressed: send no Content-Encoding");
  }
}

export const bodyWithinMs = 30_000;
export const bodyNotInTime = () => new Fault("request_timeout", "the body did not arrive in time");
const tooLarge = (maxBytes: number) => new Fault("payload_too_large", `the body must have at most ${maxBytes} bytes`);

function requireSize({ headers }: FrontRequest, maxBytes: number): void {
  if (Number(headers["content-length"] ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

/** Reads a body. Its bytes stay counted in `room` until the caller of this function gives them back. */
function readBytes(request: FrontRequest, maxBytes: number, room?: BodyRoom): Promise<Buffer> {
  // Node has already closed the stream of a request without a body: no event would come.
  if (bodyOf(request) === "none") return Promise.resolve(Buffer.alloc(0));
  // The client has left, and "close" may have come before.
  if (request.destroyed) return Promise.reject(new ClientGone());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = () => {
      clearTimeout(slow);
      request.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onClose);
    };
    const refuse = (error: unknown) => {
      done();
      request.pause();
      room?.give(size);
      reject(error);
    };
    const slow = setTimeout(() => {
      refuse(bodyNotInTime());
    }, bodyWithinMs);
    const onData = (chunk: Buffer) => {
      try {
        room?.take(chunk.length);
      } catch (error) {
        refuse(error);
        return;
      }
      size += chunk.length;
      chunks.push(chunk);
      if (size > maxBytes) refuse(tooLarge(maxBytes));
    };
    const onEnd = () => {
      if (!request.complete) {
        onClose();
        return;
      }
      done();
      resolve(Buffer.concat(chunks, size));
    };
    const onClose = () => refuse(new ClientGone());
    request.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onClose);
  });
}

/** The caller left before its body was complete: no response, no log. */
export class ClientGone extends Error {
  override readonly name = "ClientGone";
}
