import type { IncomingMessage } from "node:http";
import type { Tracing } from "../../../base/tracing.ts";
import type { Upstream, UpstreamLimits } from "../../../relay/upstream.ts";
import { isHeld } from "../admission.ts";
import type { HeldCalls } from "../held/held-calls.ts";
import type { ProviderCalls } from "../provider-calls.ts";
import type { NotableCall } from "../proxy-call.ts";
import type { ProxyCount } from "../proxy-count.ts";
import { beginProxyTrace } from "../trace.ts";
import { createTunnelRequests } from "../tunnel-requests.ts";
import { type UpgradeCall, WebSocketCall, type WebSocketServices } from "./websocket-call.ts";

interface UpgradesOptions {
  readonly calls: ProviderCalls;
  readonly held: HeldCalls;
  readonly upstream: Upstream;
  readonly limits: Pick<UpstreamLimits, "answerMs" | "idleMs">;
  readonly count: ProxyCount;
  readonly streams: WebSocketServices["streams"];
  readonly tracing: Tracing | undefined;
}

/**
 * Returns whether a request asks to continue in another protocol, which takes both headers (RFC 9110, section 7.8).
 * Offers of HTTP/2 are ignored, as allowed: clients that send them, Java's among them, do just as well without.
 */
export function wantsUpgrade({ headers }: Pick<IncomingMessage, "headers">): boolean {
  const { connection = "", upgrade } = headers;
  if (upgrade === undefined || upgrade.toLowerCase() === "h2c") return false;
  return /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(connection);
}

/** Only a WebSocket may become a tunnel; other upgrades are refused. */
export const wantsWebSocket = (request: IncomingMessage): boolean =>
  wantsUpgrade(request) &&
  request.method === "GET" &&
  request.httpVersion === "1.1" &&
  request.headers.upgrade?.toLowerCase() === "websocket";

const noContent = new Uint8Array();

/** Opens tunnels for WebSockets, with the same checks and credentials as for any other request. */
export function createUpgrades(options: UpgradesOptions): (call: UpgradeCall) => NotableCall {
  const { calls, held, upstream, limits, count, streams, tracing } = options;
  const services: WebSocketServices = { calls, sendRequest: createTunnelRequests(upstream), limits, count, streams };
  return (call) => {
    const { request, response, socket } = call;
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, { request, response, until: socket });
    const websocket = new WebSocketCall(services, call, trace);
    calls.begin(call, {
      named: (naming) => {
        websocket.named = naming;
      },
      ready(ready) {
        // The body of a handshake is not sent: policies judge a handshake as one without.
        const counted = calls.requireAllowedBody(ready, noContent);
        if (counted === undefined && !isHeld(ready.verdict)) {
          websocket.open(ready);
          return;
        }
        const again = () => calls.again(call, ready, noContent);
        Promise.resolve(counted)
          .then(() => held.admit({ context: call, ready, content: undefined, again, spend: calls.spend }))
          .then((sent) => websocket.open(sent.ready))
          .catch((error: unknown) => websocket.fail(error));
      },
      fail: (error) => websocket.fail(error),
    });
    return websocket;
  };
}
