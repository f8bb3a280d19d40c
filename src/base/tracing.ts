/** Creates spans. Present in a `World` only if spans are collected. */
export interface Tracing {
  /** Begins a span now: in the trace of a well-formed parent, otherwise in a new trace. */
  span(name: string, options: SpanOptions): Span;
  /** Exports the ended spans and accepts no more. Spans left after the time limit are dropped and counted. */
  close(withinMs: number): Promise<void>;
}

/** `server`: a request to Latchkey. `client`: a request by Latchkey. `internal`: neither. */
export type SpanKind = "internal" | "server" | "client";

export interface SpanOptions {
  readonly kind: SpanKind;
  /** A local span, or the `traceparent` of a caller. */
  readonly parent?: Span | string | undefined;
}

export interface Span {
  /** Header value for requests made during this span (W3C Trace Context). */
  readonly traceparent: string;
  /** Set if the span joined its parent's trace: only then does the caller's `tracestate` belong to this trace. */
  readonly hasParent: boolean;
  /** Never a secret, a path or a header value: spans are sent to a collector. */
  set(name: string, value: string | number): void;
  /** `errorType` has few values: the code of a fault, or a status. */
  fail(errorType: string): void;
  /** Only the first call counts. A span that is not sampled is not kept. */
  end(): void;
}
