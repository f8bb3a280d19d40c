import { STATUS_CODES } from "node:http";
import type { Fault } from "../base/fault.ts";
import { errorBody } from "../base/http/error-body.ts";
import type { Metrics } from "../base/metrics/metrics.ts";
import type { ConnectCall } from "../data-plane/server/forward-traffic.ts";

const established = "HTTP/1.1 200 Connection Established\r\n\r\n";

/** Answers that the tunnel is open. What the caller sent early is read in it. */
export function beginTunnel(
  { socket, early }: Pick<ConnectCall, "socket" | "early">,
  outcome: "opened" | "passed_on",
  { forwardTunnels }: Pick<Metrics, "forwardTunnels">,
): void {
  forwardTunnels.inc({ outcome });
  socket.write(established);
  if (early.length > 0) socket.unshift(early);
}

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
