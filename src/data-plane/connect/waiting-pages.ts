import type { WebSocket } from "ws";
import { digestOf } from "../../base/ids.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { SocketMessage } from "./socket-message.ts";

/** Pages that wait for the result of an authorization, by their ids. */
export interface WaitingPages {
  /**
   * Makes room for one more page: the oldest page without an authorization is closed for a new one. Returns false if
   * all pages have one.
   */
  makeRoom(): boolean;
  /** Adds a page until it closes. `origin`: of the page, as its browser says. */
  add(id: string, page: WebSocket, origin: string | undefined): void;
  /** The authorization of this session has begun, and its result is for this page. */
  nameBy(id: string, sessionId: string): void;
  /** Returns false if no page waits under the id. */
  send(id: string, message: SocketMessage): boolean;
  /** Sends to the page whose id has this hash, if it waits here. */
  sendByHash(hash: string, message: object): void;
  originOf(id: string): string | undefined;
  /** Pings all pages. Drops those that have not answered the last ping, or have waited too long. */
  scan(): void;
  /** Closes all pages with "going away". */
  close(): void;
}

interface WaitingPage {
  readonly page: WebSocket;
  readonly origin: string | undefined;
  readonly since: number;
  isAlive: boolean;
  /** The session of an authorization that names this page. Until one does, the page has only shown that it can connect. */
  sessionId: string | undefined;
}

/** A session makes one connection, and its holder may begin in a few tabs. */
const maxNamedBySession = 8;
/** The lifetime of a session. */
const lifetimeMs = 30 * 60_000;

interface WaitingPagesOptions {
  readonly maxPages: number;
  readonly metrics: Pick<Metrics, "connectSockets">;
}

export function createWaitingPages({ maxPages, metrics }: WaitingPagesOptions): WaitingPages {
  const pages = new Map<string, WaitingPage>();
  const byHash = new Map<string, WebSocket>();

  function forget(id: string): void {
    pages.delete(id);
    byHash.delete(digestOf(id));
    metrics.connectSockets.set(pages.size);
  }

  return {
    makeRoom() {
      if (pages.size < maxPages) return true;
      // Iterates in order of arrival.
      for (const [id, { page, sessionId }] of pages) {
        if (sessionId !== undefined) continue;
        forget(id);
        page.close(1013, "closed for a newer page: too many pages wait");
        return true;
      }
      return false;
    },
    add(id, page, origin) {
      const waiting: WaitingPage = { page, origin, since: performance.now(), isAlive: true, sessionId: undefined };
      pages.set(id, waiting);
      byHash.set(digestOf(id), page);
      metrics.connectSockets.set(pages.size);
      page.on("pong", () => {
        waiting.isAlive = true;
      });
      page.on("error", () => page.terminate());
      page.on("close", () => forget(id));
    },
    nameBy(id, sessionId) {
      const found = pages.get(id);
      if (found === undefined) return;
      found.sessionId = sessionId;
      // One session must not hold the room of all other pages.
      const others = [...pages.values()].filter((one) => one !== found && one.sessionId === sessionId);
      for (const one of others.slice(0, 1 - maxNamedBySession)) one.sessionId = undefined;
    },
    send(id, message) {
      const found = pages.get(id);
      found?.page.send(JSON.stringify(message));
      return found !== undefined;
    },
    sendByHash: (hash, message) => byHash.get(hash)?.send(JSON.stringify(message)),
    originOf: (id) => pages.get(id)?.origin,
    scan() {
      const now = performance.now();
      for (const waiting of pages.values()) {
        if (!waiting.isAlive) waiting.page.terminate();
        else if (now - waiting.since > lifetimeMs)
          waiting.page.close(1000, "the authorization was not finished in time");
        else waiting.page.ping();
        waiting.isAlive = false;
      }
    },
    close() {
      for (const { page } of pages.values()) page.close(1001, "Latchkey is stopping");
    },
  };
}
