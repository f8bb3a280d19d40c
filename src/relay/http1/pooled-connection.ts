import type { SecureContext } from "node:tls";
import type { Origin } from "../origin.ts";

/** The origin of connections, and the TLS session for the next one. */
export interface ConnectionPool {
  readonly origin: Origin;
  readonly secureContext: SecureContext | undefined;
  session: Buffer | undefined;
}

/**
 * Pool state of a connection: its place in the lists, its idle time, its last activity. A base class
 * rather than an object of its own: a request looks at fewer places in memory.
 */
export abstract class PooledConnection<P extends ConnectionPool = ConnectionPool> {
  readonly pool: P;
  /** Idle timeout in seconds, if the provider has sent one. */
  idleSeconds: number | undefined;
  /** Index in the list of busy connections; -1 when idle. */
  at = -1;
  /** When an idle connection expires. */
  idleUntil = 0;
  /** When the connection became idle. */
  idleSince = 0;
  /** The provider has ended its side, or the connection is being closed. */
  hasEnded = false;
  /** Nothing was sent of the request that the connection carries, and nothing will be. */
  hasKeptBack = false;
  /**
   * The connection has carried an earlier request: the provider may have closed the connection before the next one.
   */
  isReused = false;
  /** Counts every activity; a sweep compares the count with that of the sweep before. */
  protected activity = 0;
  #seenActivity = 0;
  #wasConnecting = false;
  /** When activity was last seen. */
  #movedAt = 0;

  constructor(pool: P) {
    this.pool = pool;
  }

  abstract get isConnecting(): boolean;

  /** Starts to measure the time without activity. */
  watch(nowMs: number): void {
    this.#seenActivity = -1;
    this.#wasConnecting = this.isConnecting;
    this.#movedAt = nowMs;
  }

  /** Returns how long ago activity was last seen. */
  stillFor(nowMs: number): number {
    if (this.activity !== this.#seenActivity || this.isConnecting !== this.#wasConnecting) {
      this.#seenActivity = this.activity;
      this.#wasConnecting = this.isConnecting;
      this.#movedAt = nowMs;
    }
    return nowMs - this.#movedAt;
  }
}
