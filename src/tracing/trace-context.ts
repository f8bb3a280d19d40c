/** A span and its trace, as in `traceparent` (W3C Trace Context, section 3.2). */
export interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hex digits, not all zero. */
  readonly spanId: string;
  readonly flags: number;
}

export const sampledFlag = 0x01;
/** Level 2, 3.2.2.5: the last 56 bits of the trace id are random, and a sampler may rely on that. */
export const randomFlag = 0x02;

const wellFormed = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Undefined for malformed text: then a new trace starts (section 4.3). Two values joined by a comma are malformed. */
export function parseTraceparent(text: string): TraceContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", more] = wellFormed.exec(text) ?? [];
  if (version === undefined || version === "ff" || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  // Later versions may have more fields; version 00 has none.
  if (version === "00" && more !== undefined) return undefined;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) & (sampledFlag | randomFlag) };
}

export const traceparentOf = ({ traceId, spanId, flags }: TraceContext): string =>
  `00-${traceId}-${spanId}-0${flags.toString(16)}`;
