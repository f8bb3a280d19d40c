import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer } from "ws";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Outcomes } from "../../broker/connect/outcomes.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import { newListenerId } from "./listener-id.ts";
import type { SocketMessage } from "./socket-message.ts";
import { createWaitingPages } from "./waiting-pages.ts";

/** Pages that wait for the result of an authorization, each over a WebSocket that only sends to the page. */
export interface ConnectSockets {
  /** Takes a connection over. Throws `overloaded` when too many pages wait for an authorization that has begun. */
  join(request: IncomingMessage, socket: Duplex, early: Buffer): void;
  /** Tells a refused page why, over the requested WebSocket, and closes the WebSocket. */
  refuse(request: IncomingMessage, socket: Duplex, refusal: SocketRefusal): void;
  /** An authorization of this session has begun whose result this page will receive. */
  nameBy(listener: string, sessionId: string): void;
  /** Sends a message to the page with this id. Returns false: no page waits under the id in this process. */
  send(listener: string, message: SocketMessage): boolean;
  /** Returns the origin of the waiting page; undefined: no page waits, or the page has no origin. */
  originOf(listener: string): string | undefined;
  /** Closes all sockets with "going away". */
  close(): void;
}

/** The message for a refused page. */
interface SocketRefusal {
  readonly early: Buffer;
  readonly message: SocketMessage;
}

const usualMaxPages = 2_000;
const scanEveryMs = 30_000;
/** Pages have nothing to send. */
const maxPayloadBytes = 1_024;

interface ConnectSocketsOptions {
  readonly cookies: BrowserCookies;
  /** Results from the other processes that share the store. */
  readonly outcomes: Pick<Outcomes, "onPassed">;
  readonly world: World;
  readonly maxPages?: number;
}

export function createConnectSockets(options: ConnectSocketsOptions): ConnectSockets {
  const { cookies, outcomes, world, maxPages = usualMaxPages } = options;
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxPayloadBytes,
  });
  const newCookies = new WeakMap<IncomingMessage, string>();
  server.on("headers", (lines, request) => {
    const setCookie = newCookies.get(request);
    if (setCookie !== undefined) lines.push(`Set-Cookie: ${setCookie}`);
  });
  const pages = createWaitingPages({ maxPages, metrics: world.metrics });
  outcomes.onPassed(pages.sendByHash);
  const timer = setInterval(pages.scan, scanEveryMs);
  timer.unref();

  return {
    join(request, socket, early) {
      if (!pages.makeRoom()) {
        throw new Fault("overloaded", "too many pages wait for an authorization", { retryAfterSeconds: 10 });
      }
      // A page of the same site shares its cookies with the windows it opens, so the cookie identifies the browser
      // later.
      const { secret, setCookie } = cookies.renew(request.headers);
      newCookies.set(request, setCookie);
      server.handleUpgrade(request, socket, early, (page) => {
        const { origin } = request.headers;
        // The id alone proves who may receive the result, so it must be as hard to guess as a session token.
        const id = newListenerId(secret, origin ?? "");
        pages.add(id, page, origin);
        // The protocol has no messages from the page.
        page.on("message", () => page.close(1008, "messages are not read here"));
        page.send(JSON.stringify({ message_type: "connection_ack", ws_client_id: id }));
      });
    },
    refuse(request, socket, { early, message }) {
      server.handleUpgrade(request, socket, early, (page) => {
        page.on("error", () => page.terminate());
        page.on("message", () => page.terminate());
        page.send(JSON.stringify(message));
        page.close(1008, "the origin of this page is not allowed");
      });
    },
    nameBy: pages.nameBy,
    send: pages.send,
    originOf: pages.originOf,
    close() {
      clearInterval(timer);
      pages.close();
    },
  };
}
