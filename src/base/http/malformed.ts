import { Fault } from "../fault.ts";
import { errorBody } from "./error-body.ts";

const goneCodes: ReadonlySet<string | undefined> = new Set(["ECONNRESET", "EPIPE", "ECANCELED", "ETIMEDOUT"]);

/** Reports whether an error only means that the peer has left: there is no response to send and nothing to warn of. */
export const isGone = ({ code }: { readonly code?: string | undefined }): boolean => goneCodes.has(code);

/** Converts an error of Node's HTTP parser to a fault. */
export function faultOfParser({ code }: { readonly code?: string | undefined }): Fault {
  if (code === "HPE_HEADER_OVERFLOW") return new Fault("headers_too_large", "the request's head is too large");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new Fault("request_timeout", "the request was not complete in time");
  return new Fault("malformed_request", "the request is not well-formed HTTP");
}

const reasons: Readonly<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
  503: "Service Unavailable",
};

/** Returns a response as bytes, for a connection whose head could not be parsed as a request. */
export function rawAnswer(fault: Fault): string {
  const body = errorBody(fault);
  return [
    `HTTP/1.1 ${fault.status} ${reasons[fault.status] ?? "Error"}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    `latchkey-error: ${fault.code}`,
    ...(fault.retryAfterSeconds === undefined ? [] : [`retry-after: ${fault.retryAfterSeconds}`]),
    "connection: close",
    "",
    body,
  ].join("\r\n");
}
