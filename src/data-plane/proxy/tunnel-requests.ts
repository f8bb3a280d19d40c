import http, { type ClientRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createProxyServer } from "http-proxy-3";
import type { AdmittedOrigin } from "../../relay/origin.ts";
import type { Upstream } from "../../relay/upstream.ts";
import type { HandshakeHeaders } from "./websocket/websocket-handshake.ts";

/** Sends requests for WebSockets to providers, by http-proxy-3. */
export type TunnelRequests = (input: TunnelInput) => TunnelRequest;

interface TunnelInput {
  readonly origin: AdmittedOrigin;
  /** Path and query, as they are to be sent. */
  readonly target: string;
  readonly headers: HandshakeHeaders;
  /** The caller's socket. */
  readonly socket: Socket;
  /** Ends the attempt to connect. */
  readonly signal: AbortSignal;
}

/** A sent request. The caller of this module listens to its events. */
interface TunnelRequest {
  readonly request: ClientRequest;
  /** Takes the arguments of an `upgrade` event, sends the response to the caller, and joins the two sockets. */
  readonly tunnel: (answer: IncomingMessage, there: Socket, head: Buffer) => void;
}

/**
 * Uses http-proxy-3 with a request that Latchkey has written, over a connection that Latchkey has opened, and removes
 * its listeners: by itself it would copy every header both ways, pass on a `101` that was not requested, leave a caller
 * hanging whose provider died within another response, and throw errors that no code catches.
 */
export function createTunnelRequests({ open }: Pick<Upstream, "open">): TunnelRequests {
  const proxy = createProxyServer({ toProxy: true });
  // Without another listener beside its own, http-proxy-3 throws errors. Each tunnel learns of its own.
  proxy.on("error", () => {});
  const latest: { request?: ClientRequest } = {};
  proxy.on("proxyReqWs", (made, shown) => {
    // The path as it was written: http-proxy-3 would drop a lone question mark at the end.
    made.path = shown.url ?? "/";
    latest.request = made;
  });

  return ({ origin, target, headers, socket, signal }) => {
    // A minimal request: http-proxy-3 copies everything that a request has.
    const shown = { method: "GET", url: target, headers, httpVersion: "1.1", httpVersionMajor: 1 };
    const agent = Object.assign(new http.Agent(), {
      createConnection(_: unknown, ready: (error: Error | null, socket?: Duplex) => void) {
        open(origin, signal).then((there) => ready(null, there), ready);
      },
    });
    const { host, port } = origin;
    const options = { target: { host, port, protocol: "http:" }, agent };
    // http-proxy-3 reads nothing else of a request. It ends the caller's side after an error of the tunnel.
    proxy.ws(shown as unknown as IncomingMessage, socket, Buffer.alloc(0), options, () => {});
    const { request } = latest;
    const [tunnel] = request?.listeners("upgrade") ?? [];
    if (request === undefined || tunnel === undefined) throw new Error("http-proxy-3 has made no request");
    for (const event of ["upgrade", "response", "error"]) request.removeAllListeners(event);
    // http-proxy-3 has added this listener for an `upgrade` event.
    return { request, tunnel: tunnel as TunnelRequest["tunnel"] };
  };
}
