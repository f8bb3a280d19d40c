import type { OutgoingHttpHeaders } from "node:http2";
import { lowerCase } from "../../base/http/field-name.ts";
import { endToEnd, type Framing, type ResponseHead } from "../http1/response-head.ts";

/**
 * The head of a request, as it would go over HTTP/1.1, in the fields of HTTP/2 (RFC 9113, 8.3.1): name, value, name,
 * value. There is one way to write a head, so that nothing can be left out of one of two.
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
  // What comes behind an answer goes on to the caller, and servers of gRPC want to hear so.
  fields.push("te", "trailers");
  return fields;
}

interface StreamAnswerHead {
  /** Name, value, name, value, with `:status`. */
  readonly rawHeaders: readonly string[];
  readonly isHead: boolean;
  /** Nothing follows. */
  readonly isAll: boolean;
}

/** The head of an answer, as HTTP/1.1 has it; undefined for one that makes no sense. */
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

/** Trailers go as a record alone; of one name with several values, as a list. */
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
