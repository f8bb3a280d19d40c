import type { Socket } from "node:net";
import type { IdleSince } from "./drain-listener.ts";

interface UseOfConnection {
  pendingRequests: number;
  /** Since when there is no request. */
  sinceMs: number;
  isUsed: boolean;
  /** Bytes that had been read then: with more, the next request has begun. */
  bytesRead: number;
}

/** The HTTP/1.1 connections of a listener, and which of them have no request. */
export class IdleConnections {
  readonly #open = new Map<Socket, UseOfConnection>();

  add(socket: Socket): void {
    this.#open.set(socket, { pendingRequests: 0, sinceMs: performance.now(), isUsed: false, bytesRead: 0 });
    socket.once("close", () => this.#open.delete(socket));
  }

  /** The connection is not HTTP any more, or ends by itself. */
  forget(socket: Socket): void {
    this.#open.delete(socket);
  }

  begun(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    connection.pendingRequests += 1;
    connection.isUsed = true;
  }

  answered(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    connection.pendingRequests -= 1;
    connection.sinceMs = performance.now();
    connection.bytesRead = socket.bytesRead;
  }

  close({ openedMs, answeredMs }: IdleSince): void {
    for (const [socket, { pendingRequests, sinceMs, isUsed, bytesRead }] of this.#open) {
      if (pendingRequests > 0 || socket.bytesRead > bytesRead) continue;
      if (sinceMs <= (isUsed ? answeredMs : openedMs)) socket.destroySoon();
    }
  }
}
