import { byFieldName, lowerCase } from "../../base/http/field-name.ts";
import { trimmed } from "../../base/http/field-value.ts";
import { endToEnd, type Framing, type ResponseHead } from "../http1/response-head.ts";
import type { FieldBlock } from "./wire/hpack-decoder.ts";

/** RFC 9113, 8.2.2: headers of HTTP/1.1 connections make a message malformed. */
const connectionNames = [
  "connection",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
];
export const isOfConnection = byFieldName((lower) => connectionNames.includes(lower));
const isDigits = /^[0-9]{1,15}$/;
const isStatus = /^[1-9][0-9]{2}$/;

/**
 * Converts the HTTP/1.1 head of a request into HTTP/2 headers (RFC 9113, 8.3.1): name, value, name, value. Both
 * protocols share one way to write a head, so that no header can be missing in one of them. Throws for a header that
 * HTTP/2 does not have.
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
    else if (name === "transfer-encoding" || name === "connection") continue;
    else if (isOfConnection(name)) throw new Error(`HTTP/2 has no ${name} header`);
    else fields.push(name, value);
  }
  // Trailers of a response are forwarded to the client, and gRPC servers require this header.
  fields.push("te", "trailers");
  return fields;
}

interface StreamAnswerHead {
  /** With `:status`. */
  readonly block: FieldBlock;
  readonly isHead: boolean;
  /** The head ends the message. */
  readonly isAll: boolean;
}

/** Converts the head of a response to its HTTP/1.1 form; undefined for a malformed head (RFC 9113, 8.1.1 and 8.3.2). */
export function headOfStream({ block, isHead, isAll }: StreamAnswerHead): ResponseHead | undefined {
  const { fields } = block;
  const [first, code = ""] = fields;
  if (block.isMalformed || first !== ":status" || !isStatus.test(code)) return undefined;
  const status = Number(code);
  if (status === 101) return undefined;
  let length: number | undefined;
  const plain: string[] = [];
  for (let i = 2; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = withoutBlanks(fields[i + 1] ?? "");
    if (isPseudo(name) || isOfConnection(name)) return undefined;
    if (name === "content-length") {
      // Refuse a repeated length, even an equal one, as over HTTP/1.1.
      if (length !== undefined || !isDigits.test(value)) return undefined;
      length = Number(value);
      // RFC 9110, 8.6: neither has a length. A 204 with 0 is tolerated.
      if (status < 200 || (status === 204 && length > 0)) return undefined;
      if (status === 204) continue;
    }
    plain.push(name, value);
  }
  const mayHaveBody = !isHead && status !== 204 && status !== 304;
  // Over HTTP/1.1, a caller would take what follows for the missing content.
  if (isAll && mayHaveBody && length !== undefined && length > 0) return undefined;
  const hasBody = !isAll && mayHaveBody;
  const framing: Framing = hasBody ? (length ?? "chunked") : "none";
  return {
    status,
    reason: "",
    fields: endToEnd(plain),
    framing,
    keepsAlive: true,
    idleSeconds: undefined,
    isHttp2: true,
    isAll,
  };
}

/** Returns whether a field block may follow the content of a message (RFC 9113, 8.1; RFC 9110, 6.5.1). */
export function areTrailers({ fields, isMalformed }: FieldBlock): boolean {
  if (isMalformed) return false;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    if (isPseudo(name) || isOfConnection(name) || name === "content-length") return false;
  }
  return true;
}

/** Returns the value as HTTP/1.1 would have it. */
export function withoutBlanks(value: string): string {
  const { length } = value;
  // A visible first and last character: nearly always.
  if (length === 0 || (value.charCodeAt(0) > 32 && value.charCodeAt(length - 1) > 32)) return value;
  return trimmed(value, 0, length);
}

const isPseudo = (name: string): boolean => name.charCodeAt(0) === 58;

/** Returns the fields with names in lower case, as HTTP/2 requires. */
export const lowerCaseNames = (fields: readonly string[]): readonly string[] =>
  fields.length === 0 ? fields : fields.map((text, i) => (i % 2 === 0 ? lowerCase(text) : text));
