import type { AdmittedOrigin } from "./origin.ts";

export type Protocol = "http1" | "http2" | "any";

export interface UpstreamRequest {
  readonly origin: AdmittedOrigin;
  readonly method: string;
  /** Request line and fields, with their framing and the empty line; latin1. */
  readonly head: string;
  readonly body: "none" | "length" | "chunked";
  /**
   * Not on a connection that lay idle: the provider may have closed it already, and then nobody could say whether the
   * request arrived.
   */
  readonly needsNew?: boolean;
  /** Not on one that lay idle for longer: the shorter it was, the less likely is that. Unless said, however long. */
  readonly idleAtMostMs?: number;
  /** Safe to send again whatever its method, with its body, which is kept for it: of small ones. */
  readonly mayRepeat?: boolean;
  /**
   * In which protocol it may go; by default `http1`, over HTTP/2 only to an origin that takes nothing else. `any`: over
   * HTTP/2 where that is offered under TLS. `http2`: in no other, and without TLS by prior knowledge.
   */
  readonly protocol?: Protocol;
  /** A call of gRPC: its answer may begin long after its request has ended. */
  readonly isGrpc?: boolean;
  /** Names of fields whose values are secrets, in lower case. */
  readonly sensitive?: readonly string[];
}

/** A request under way. */
export interface Exchange {
  /** Something of it was given to a connection that stood: whatever comes, the provider may have acted on it. */
  readonly mayHaveArrived: boolean;
  /** Returns false when the receiver's `onDrain` will say that more can be taken. */
  write(bytes: Buffer): boolean;
  /** Of a body: its end. */
  end(trailers: readonly string[]): void;
  resume(): void;
  /** Nobody waits for it any more: its connection ends, and its receiver hears nothing. */
  abort(): void;
}
