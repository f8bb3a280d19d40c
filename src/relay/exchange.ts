import type { AdmittedOrigin } from "./origin.ts";

export type Protocol = "http1" | "http2" | "any";

export interface UpstreamRequest {
  readonly origin: AdmittedOrigin;
  readonly method: string;
  /** Request line and headers, with framing headers and the empty line; latin1. */
  readonly head: string;
  readonly body: "none" | "length" | "chunked";
  /**
   * Forbids an idle connection. The provider may have closed the idle connection already, and then no one can tell
   * whether the request arrived.
   */
  readonly needsNew?: boolean;
  /**
   * Forbids connections that were idle for longer: a short idle time makes a closed connection less likely. Without a
   * value any idle time is allowed.
   */
  readonly idleAtMostMs?: number;
  /** The request is safe to repeat, whatever its method. Its body is kept for the repeat; only for small bodies. */
  readonly mayRepeat?: boolean;
  /**
   * Protocols that the request may use. By default `http1`: HTTP/2 only for an origin that accepts nothing else.
   * `any`: HTTP/2 where TLS offers HTTP/2. `http2`: HTTP/2 only, without TLS by prior knowledge.
   */
  readonly protocol?: Protocol;
  /** A gRPC call: its response may begin long after its request has ended. */
  readonly isGrpc?: boolean;
  /** Lower-case names of headers whose values are secrets. */
  readonly sensitive?: readonly string[];
}

/** A request in progress. */
export interface Exchange {
  /**
   * Part of the request was given to an established connection: whatever follows, the provider may have acted on the
   * request.
   */
  readonly mayHaveArrived: boolean;
  /** Returns false when the receiver's `onDrain` will report that more bytes can be written. */
  write(bytes: Buffer): boolean;
  /** Ends the request body. */
  end(trailers: readonly string[]): void;
  resume(): void;
  /** The caller has left: the connection is closed, and the receiver gets no callback. */
  abort(): void;
}
