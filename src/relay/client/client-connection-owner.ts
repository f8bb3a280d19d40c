import type { Socket } from "node:net";
import type { RequestHead } from "../http1/request-head.ts";

/** Callbacks of a client connection of the class `C`. */
export interface ClientConnectionOwner<C> {
  /**
   * Returns true if the request will be relayed; `begin` has been called then. Any other result means that nothing
   * has happened. Call `take` again after a promise has resolved. If it rejects, another parser gets the request.
   */
  take(connection: C, head: RequestHead): boolean | Promise<void>;
  /**
   * Hands over a connection that has a request which is not plain; another parser reads the rest of the connection.
   * The bytes of the request are unread again. `isHttp1` says whether HTTP/1.1 has already come over the connection;
   * false means unknown.
   */
  handOver(connection: C, socket: Socket, isHttp1: boolean): void;
  /** Refuses bytes that never become a request. The codes are those of `node:http`. */
  refuse(socket: Socket, code: "ERR_HTTP_REQUEST_TIMEOUT" | "HPE_INVALID_EOF_STATE"): void;
  closed(connection: C): void;
  /** Set when every response that begins must close its connection. */
  readonly isLeaving: boolean;
  /** Monotonic clock, at most one second behind; exact while the listener is leaving. */
  readonly nowMs: number;
}

/** A request that a client connection has accepted. */
export interface TakenRequest {
  /** Called when the request was answered, or the client left. */
  over(status: number): void;
}

/** A response that Latchkey makes itself, not the provider. */
export interface OwnAnswer {
  readonly status: number;
  /** All headers except the content length and those about the connection. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}
