import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { Outcomes } from "../../broker/connect/outcomes.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import { newListenerId } from "./listener-id.ts";

/** Pages that wait for the result of an authorization, each over a WebSocket that only sends to the page. */
export interface ConnectSockets {
  /** Takes a connection over. Throws `overloaded` when too many pages wait for an authorization that has begun. */
  join(request: IncomingMessage, socket: Duplex, early: Buffer): void;
  /** Tells a refused page why, over the requested WebSocket, and closes the WebSocket. */
  refuse(request: IncomingMessage, socket: Duplex, told: Refused): void;
  /** An authorization of this session has begun whose result this page will receive. */
  begun(listener: string, sessionId: string): void;
  /** Sends a message to the page with this id. Returns false: no page waits under the id in this process. */
  tell(listener: string, message: SocketMessage): boolean;
  /** Returns the origin of the waiting page; undefined: no page waits, or the page has no origin. */
  originOf(listener: string): string | undefined;
  /** Closes all sockets with "going away". */
  close(): void;
}

/** In the format of the frontend SDK. */
export type SocketMessage =
  | {
      readonly message_type: "success";
      readonly provider_config_key: string;
      readonly connection_id: string;
      readonly is_pending: boolean;
    }
  | {
      readonly message_type: "error";
      readonly provider_config_key: string;
      readonly connection_id: string;
      readonly error_type: string;
      readonly error_desc: string;
      /** The connection fields with errors; for the connect page. */
      readonly fields?: readonly string[];
    };

/** The message for a refused page. */
interface Refused {
  readonly early: Buffer;
  readonly message: SocketMessage;
}

const usualMaxPages = 2_000;
/** A session makes one connection, and its holder may begin in a few tabs. */
const maxNamedBySession = 8;
/** As long as the session of a waiting page can last. */
const lifetimeMs = 30 * 60_000;
const lookEveryMs = 30_000;
/** Pages have nothing to send. */
const maxPayloadBytes = 1_024;

interface WaitingPage {
  readonly page: WebSocket;
  readonly origin: string | undefined;
  readonly since: number;
  isAlive: boolean;
  /** The session of an authorization that names this page. Until one does, the page has only shown that it can connect. */
  namedBy: string | undefined;
}

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
  const waiting = new Map<string, WaitingPage>();
  const byHash = new Map<string, WebSocket>();
  outcomes.onPassed((hash, message) => byHash.get(hash)?.send(JSON.stringify(message)));
  const timer = setInterval(look, lookEveryMs);
  timer.unref();

  /** Drops pages that do not answer pings, and those that have waited too long. */
  function look(): void {
    const now = performance.now();
    for (const one of waiting.values()) {
      if (!one.isAlive) one.page.terminate();
      else if (now - one.since > lifetimeMs) one.page.close(1000, "nothing came of it in time");
      else one.page.ping();
      one.isAlive = false;
    }
  }

  /** Makes room for one more page: the oldest page without an authorization is closed for a new one. */
  function makeRoom(): boolean {
    if (waiting.size < maxPages) return true;
    // Iterates in order of arrival.
    for (const [id, { page, namedBy }] of waiting) {
      if (namedBy !== undefined) continue;
      forget(id);
      page.close(1013, "too many pages wait, and this one for nothing yet");
      return true;
    }
    return false;
  }

  function forget(id: string): void {
    waiting.delete(id);
    byHash.delete(digestOf(id));
    world.metrics.connectSockets.set(waiting.size);
  }

  return {
    join(request, socket, early) {
      if (!makeRoom()) {
        throw new Fault("overloaded", "too many pages wait for an authorization", { retryAfterSeconds: 10 });
      }
      // A page of the same site shares its cookies with the windows it opens, so the cookie identifies the browser
      // later.
      const { secret, setCookie } = cookies.renew(request.headers);
      newCookies.set(request, setCookie);
      server.handleUpgrade(request, socket, early, (page) => {
        // The id alone proves who may receive the result, so it must be as hard to guess as a session token.
        const id = newListenerId(secret, request.headers.origin ?? "");
        const one: WaitingPage = {
          page,
          origin: request.headers.origin,
          since: performance.now(),
          isAlive: true,
          namedBy: undefined,
        };
        waiting.set(id, one);
        byHash.set(digestOf(id), page);
        world.metrics.connectSockets.set(waiting.size);
        page.on("pong", () => {
          one.isAlive = true;
        });
        // The protocol has no messages from the page.
        page.on("message", () => page.close(1008, "nothing is read here"));
        page.on("error", () => page.terminate());
        page.on("close", () => forget(id));
        page.send(JSON.stringify({ message_type: "connection_ack", ws_client_id: id }));
      });
    },
    refuse(request, socket, { early, message }) {
      server.handleUpgrade(request, socket, early, (page) => {
        page.on("error", () => page.terminate());
        page.on("message", () => page.terminate());
        page.send(JSON.stringify(message));
        page.close(1008, "this page is not let in");
      });
    },
    begun(listener, sessionId) {
      const found = waiting.get(listener);
      if (found === undefined) return;
      found.namedBy = sessionId;
      // With one session nobody holds the places of all others.
      const others = [...waiting.values()].filter((one) => one !== found && one.namedBy === sessionId);
      for (const one of others.slice(0, 1 - maxNamedBySession)) one.namedBy = undefined;
    },
    tell(listener, message) {
      const found = waiting.get(listener);
      found?.page.send(JSON.stringify(message));
      return found !== undefined;
    },
    originOf: (listener) => waiting.get(listener)?.origin,
    close() {
      clearInterval(timer);
      for (const { page } of waiting.values()) page.close(1001, "latchkey is stopping");
    },
  };
}
