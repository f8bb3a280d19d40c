import type { Server } from "node:net";
import { Fault } from "../../base/fault.ts";
import type { ConnectionLimit } from "../../base/http/connection-limit.ts";
import type { DoorGuard } from "../../base/http/door-guard.ts";
import { drainListener } from "../../base/http/drain-listener.ts";
import { errorBody } from "../../base/http/error-body.ts";
import { createHttp2Sessions } from "../../base/http/http2-sessions.ts";
import type { ListenerTls } from "../../base/http/listener.ts";
import { createTwoProtocols } from "../../base/http/two-protocols.ts";
import type { RareWarning } from "../../base/rare-warning.ts";
import type { World } from "../../base/world.ts";
import { type Calls, createCalls, cut, type Handlers, leaveUnread, type NodeRequest } from "./calls.ts";
import { createHttp1Connections, peerOf } from "./http1-connections.ts";
import type { PortPages } from "./port-pages.ts";
import type { NodeResponse } from "./slow-readers.ts";

/** The control plane's port: gRPC, gRPC-Web and Connect, over HTTP/1.1 and HTTP/2, with or without TLS. */
export interface ControlPort {
  readonly server: Server;
  /** Sets the handlers. Until then, every request fails with `not_ready`. */
  serve(handlers: Handlers): void;
  /** Still serves requests, but makes clients reconnect for further ones, so that they reach another instance. */
  leave(): void;
  /** Accepts no more requests; resolves when the pending ones have ended. */
  drain(): Promise<void>;
  /** Aborts pending requests. */
  destroy(): void;
}

export interface ControlPortOptions {
  readonly guard: DoorGuard;
  readonly maxMessageBytes: number;
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  readonly tls: ListenerTls | undefined;
  readonly warn: RareWarning;
  readonly world: World;
  /** How long a client may leave its response unread. */
  readonly stallMs?: number;
  /** Undefined: any number of connections. */
  readonly connections?: ConnectionLimit | undefined;
  /** Undefined: the port serves no pages. */
  readonly pages?: PortPages | undefined;
  /** The port's name in logs and metrics; default: `control`. */
  readonly door?: string;
}

const defaultStallMs = 60_000;

/** With keepalive, the system detects a peer that vanished silently. */
const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 };
/** Headers that must not be repeated: an intermediary may have read a different one than we do. */
const singleHeaders = ["authorization", "host", "content-type", "origin", "latchkey-session"];

export function createControlPort(options: ControlPortOptions): ControlPort {
  const {
    guard,
    maxMessageBytes,
    maxHeadBytes,
    maxHeadLines,
    tls: pair,
    warn,
    world,
    stallMs = defaultStallMs,
    pages,
    door = "control",
  } = options;
  let calls: Calls = async () => new Fault("not_ready", "Latchkey is starting");

  function refuse(fault: Fault, { message, peer }: { readonly message: string; readonly peer: string }): void {
    world.metrics.refused.inc({ door, reason: fault.code });
    warn(message, { door, peer, reason: fault.code });
  }

  function handle(request: NodeRequest, response: NodeResponse): void {
    try {
      checkHead(request, { guard, maxHeadLines, pages });
    } catch (error) {
      const fault = Fault.from(error);
      refuse(fault, { message: "request refused", peer: peerOf(request.socket) });
      answer({ request, response, fault });
      return;
    }
    if (pages?.isPage(request) === true) {
      pages.answer(request, response);
      return;
    }
    call(request, response);
  }

  async function call(request: NodeRequest, response: NodeResponse): Promise<void> {
    try {
      const fault = await calls(request, response);
      if (fault !== undefined) answer({ request, response, fault });
    } catch (err) {
      world.metrics.unhandled.inc();
      world.log.error("a call could not be answered", { method: request.url?.split("?")[0], err });
      // Without an answer, some gRPC clients would wait without end.
      if (response.headersSent) cut(response);
      else answer({ request, response, fault: Fault.from(err) });
    }
  }

  const http1 = createHttp1Connections({
    maxHeadBytes,
    handle,
    refuse: (fault, peer) => refuse(fault, { message: "a client sent invalid HTTP", peer }),
  });
  const sessions = createHttp2Sessions({
    maxHeadBytes,
    maxHeadLines,
    handle,
    refuse: (fault, peer) => refuse(fault, { message: "a client violated HTTP/2", peer }),
  });
  const both = createTwoProtocols({
    tls: pair,
    socketOptions,
    limit: options.connections,
    serveHttp1: http1.serve,
    serveHttp2: sessions.serve,
    refuse: (fault, socket) =>
      refuse(fault, { message: "a client did not complete the TLS handshake", peer: peerOf(socket) }),
  });
  const { server } = both;

  function destroy(): void {
    sessions.destroy();
    http1.destroy();
    both.destroy();
  }

  return {
    server,
    leave() {
      http1.leave();
      sessions.leave();
    },
    serve(handlers) {
      calls = createCalls({ ...handlers, maxMessageBytes, stallMs });
    },
    async drain() {
      http1.leave();
      sessions.drain();
      await drainListener(server, (since) => {
        both.closeIdle(since);
        http1.closeIdle(since);
      });
      destroy();
    },
    destroy,
  };
}

interface HeadRules {
  readonly guard: DoorGuard;
  readonly maxHeadLines: number;
  readonly pages: PortPages | undefined;
}

function checkHead(request: NodeRequest, { guard, maxHeadLines, pages }: HeadRules): void {
  const { rawHeaders, headers } = request;
  if (rawHeaders.length / 2 > maxHeadLines) {
    throw new Fault("headers_too_large", `the request must have at most ${maxHeadLines} headers`);
  }
  for (const name of singleHeaders) {
    const count = rawHeaders.filter((one, i) => i % 2 === 0 && one.toLowerCase() === name).length;
    if (count > 1) throw new Fault("duplicate_header", `the header ${name} must be sent once, not ${count} times`);
  }
  const host = first(headers[":authority"]) ?? headers.host;
  // A link on any site may lead to a page. What a page calls is checked in full.
  if (pages?.isPage(request) === true && pages.isOpenToLinks(request)) {
    guard.checkHost(host);
    return;
  }
  guard.check({
    host,
    origin: first(headers.origin),
    fetchSite: first(headers["sec-fetch-site"]),
  });
}

const first = (value: string | string[] | undefined): string | undefined => (Array.isArray(value) ? value[0] : value);

interface RefusedCall {
  readonly request: NodeRequest;
  readonly response: NodeResponse;
  readonly fault: Fault;
}

function answer({ request, response, fault }: RefusedCall): void {
  if (!request.complete) leaveUnread(response);
  response.statusCode = fault.status;
  response.setHeader("content-type", "application/json; charset=utf-8");
  response.setHeader("latchkey-error", fault.code);
  if (fault.metadata["allow"] !== undefined) response.setHeader("allow", fault.metadata["allow"]);
  response.end(errorBody(fault));
}
