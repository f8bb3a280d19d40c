import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { Outcomes } from "../../broker/connect/outcomes.ts";
import type { BrowserCookies } from "./browser-cookie.ts";
import { newListenerId } from "./listener-id.ts";

/** Pages that wait to hear what came of an authorization, each by a WebSocket that only speaks to them. */
export interface ConnectSockets {
  /** Takes a connection over. Throws `overloaded` when too many wait for an authorization that has begun. */
  join(request: IncomingMessage, socket: Duplex, early: Buffer): void;
  /** Tells a page that is not let in why, over the connection that it asked for, and ends that. */
  refuse(request: IncomingMessage, socket: Duplex, told: Refused): void;
  /** An authorization has begun of which it is to hear. */
  begun(listener: string): void;
  /** To whom the id was given. False: nobody waits under it here. */
  tell(listener: string, message: SocketMessage): boolean;
  /** Of the page that waits; undefined: nobody does, or it has none. */
  originOf(listener: string): string | undefined;
  /** Tells all that it goes away. */
  close(): void;
}

/** As the frontend SDK reads it. */
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
      /** The connection's fields that were not right; for the connect page. */
      readonly fields?: readonly string[];
    };

/** What a page is told that is not let in. */
interface Refused {
  readonly early: Buffer;
  readonly message: SocketMessage;
}

const maxSockets = 2_000;
/** As long as the session that a page waits for can last. */
const lifetimeMs = 30 * 60_000;
const lookEveryMs = 30_000;
/** Nobody has anything to say here. */
const maxPayloadBytes = 1_024;

interface WaitingPage {
  readonly page: WebSocket;
  readonly origin: string | undefined;
  readonly since: number;
  isAlive: boolean;
  /** An authorization names it. Until one does, a moment later, it has shown that it can connect and no more. */
  isNamed: boolean;
}

interface ConnectSocketsOptions {
  readonly cookies: BrowserCookies;
  /** From the other processes of the store. */
  readonly outcomes: Pick<Outcomes, "onPassed">;
  readonly world: World;
}

export function createConnectSockets({ cookies, outcomes, world }: ConnectSocketsOptions): ConnectSockets {
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

  /** Lets go of pages that are gone without a word, and of those that waited for too long. */
  function look(): void {
    const now = performance.now();
    for (const one of waiting.values()) {
      if (!one.isAlive) one.page.terminate();
      else if (now - one.since > lifetimeMs) one.page.close(1000, "nothing came of it in time");
      else one.page.ping();
      one.isAlive = false;
    }
  }

  /** Room for one more: whoever opens many and begins nothing gives way to who comes. */
  function makeRoom(): boolean {
    if (waiting.size < maxSockets) return true;
    // In the order in which they came.
    for (const [id, { page, isNamed }] of waiting) {
      if (isNamed) continue;
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
      // A page of the same site shares its cookies with what it opens: by that the browser that comes later is known.
      const { secret, setCookie } = cookies.renew(request.headers);
      newCookies.set(request, setCookie);
      server.handleUpgrade(request, socket, early, (page) => {
        // It is all that proves who may hear of an authorization: as hard to guess as a session.
        const id = newListenerId(secret, request.headers.origin ?? "");
        const one: WaitingPage = {
          page,
          origin: request.headers.origin,
          since: performance.now(),
          isAlive: true,
          isNamed: false,
        };
        waiting.set(id, one);
        byHash.set(digestOf(id), page);
        world.metrics.connectSockets.set(waiting.size);
        page.on("pong", () => {
          one.isAlive = true;
        });
        // The protocol has no words for this side.
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
    begun(listener) {
      const found = waiting.get(listener);
      if (found !== undefined) found.isNamed = true;
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
