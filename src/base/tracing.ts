/** Spans, where somebody collects them. A room that has none in its `World` makes none. */
export interface Tracing {
  /** Begins now. With a parent that is well-formed it joins its trace; with any other, or none, it begins one. */
  span(name: string, options: SpanOptions): Span;
  /** Hands on what has ended, and takes no more; what is left when the time is up is dropped, and counted. */
  close(withinMs: number): Promise<void>;
}

/** `server`: what others asked of us. `client`: what we ask of others. `internal`: neither. */
export type SpanKind = "internal" | "server" | "client";

export interface SpanOptions {
  readonly kind: SpanKind;
  /** A span of ours, or what a caller sent. */
  readonly parent?: Span | string | undefined;
}

export interface Span {
  /** For whatever is asked of others in its course (W3C Trace Context). */
  readonly traceparent: string;
  /** Whether it joined the trace of its parent: only then is the caller's `tracestate` of this trace. */
  readonly hasParent: boolean;
  /** Never a secret, a path or what stands in a field: spans leave the house. */
  set(name: string, value: string | number): void;
  /** `errorType` is one of few words; the code of a fault, or a status. */
  fail(errorType: string): void;
  /** The first time counts. Of a span that is not sampled nothing is kept. */
  end(): void;
}
