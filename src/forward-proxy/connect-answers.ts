import { STATUS_CODES } from "node:http";
import type { Fault } from "../base/fault.ts";
import { errorBody } from "../base/http/error-body.ts";

export const established = "HTTP/1.1 200 Connection Established\r\n\r\n";

/** Returns the answer to a `CONNECT` that gets no tunnel. Many clients show its status line alone. */
export function connectRefusal(fault: Fault): string {
  const body = errorBody(fault);
  return [
    `HTTP/1.1 ${fault.status} ${STATUS_CODES[fault.status] ?? "Error"}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    `latchkey-error: ${fault.code}`,
    ...(fault.status === 407 ? ['proxy-authenticate: Basic realm="latchkey"'] : []),
    ...(fault.retryAfterSeconds === undefined ? [] : [`retry-after: ${fault.retryAfterSeconds}`]),
    "connection: close",
    "",
    body,
  ].join("\r\n");
}
