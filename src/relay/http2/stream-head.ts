import type { OutgoingHttpHeaders } from "node:http2";
import { lowerCase } from "../../base/http/field-name.ts";
import { endToEnd, type Framing, type ResponseHead } from "../http1/response-head.ts";

/**
 * Converts the HTTP/1.1 head of a request into HTTP/2 headers (RFC 9113, 8.3.1): name, value, name, value. Both
 * protocols share one way to write a head, so that no header can be missing in one of them.
 */
export function streamHeadOf(head: string, scheme: string): string[] {
  const lines = head.split("\r\n");
  const [method = "", path = ""] = (lines[0] ?? "").split(" ");
  const fields = [":method", method, ":scheme", scheme, ":authority", "", ":path", path];
  for (let i = 1; i < lines.length - 2; i += 1) {
    const line = lines[i] ?? "";
    const colon = line.indexOf(":");
    const name = lowerCase(line.slice(0, colon));
    const value = line.slice(colon + 1).trim();
    if (name === "host") fields[5] = value;
    else if (name !== "transfer-encoding" && name !== "connection") fields.push(name, value);
  }
  // Trailers of a response are forwarded to the client, and gRPC servers require this header.
  fields.push("te", "trailers");
  return fields;
}

interface StreamAnswerHead {
  /** Name, value, name, value, with `:status`. */
  readonly rawHeaders: readonly string[];
  readonly isHead: boolean;
  /** The head ends the message. */
  readonly isAll: boolean;
}

/** Converts the head of a response to its HTTP/1.1 form; undefined for an invalid head. */
export function headOfStream({ rawHeaders, isHead, isAll }: StreamAnswerHead): ResponseHead | undefined {
  let status = 0;
  let length: number | undefined;
  const plain: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    if (name === ":status") status = Number(value);
    else if (!name.startsWith(":")) {
      if (name === "content-length") length = Number(value);
      plain.push(name, value);
    }
  }
  if (!Number.isInteger(status) || status < 100 || status === 101) return undefined;
  if (length !== undefined && !Number.isSafeInteger(length)) return undefined;
  const hasBody = !isAll && !isHead && status !== 204 && status !== 304;
  const framing: Framing = hasBody ? (length ?? "chunked") : "none";
  return {
    status,
    reason: "",
    fields: endToEnd(plain),
    framing,
    keepsAlive: true,
    idleSeconds: undefined,
    isHttp2: true,
  };
}

/** Converts trailers to a record, the only form that Node accepts; a repeated name becomes a list. */
export function recordOf(fields: readonly string[]): OutgoingHttpHeaders {
  const made: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) {
    const name = lowerCase(fields[i] ?? "");
    const value = fields[i + 1] ?? "";
    const before = made[name];
    made[name] = before === undefined ? value : [before, value].flat();
  }
  return made;
}
