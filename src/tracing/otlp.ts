import type { SpanKind } from "../base/tracing.ts";
import { sampledFlag, type TraceContext } from "./trace-context.ts";

/**
 * OTLP in JSON (opentelemetry-proto, trace.proto). Each span is encoded when it ends, so that encoding a batch at once
 * delays no requests.
 */
export interface EndedSpan {
  readonly context: TraceContext;
  readonly parent: TraceContext | undefined;
  /** The parent is a span of the caller. */
  readonly isParentRemote: boolean;
  readonly name: string;
  readonly kind: SpanKind;
  /** Milliseconds since 1970, with a fraction. */
  readonly startMs: number;
  readonly endMs: number;
  /** The output of `attribute`, concatenated: each ends in a comma. */
  readonly attributes: string;
  readonly isError: boolean;
}

const kinds: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3 };
/** SpanFlags: whether the next flag is valid, and whether the parent is remote. */
const knowsRemote = 0x100;
const isRemote = 0x200;
const errorCode = 2;

export const attribute = (name: string, value: string | number): string =>
  typeof value === "number"
    ? `{"key":"${name}","value":{"intValue":"${value}"}},`
    : `{"key":"${name}","value":{"stringValue":${JSON.stringify(value)}}},`;

export function spanText(span: EndedSpan): string {
  const { context, parent, isParentRemote, name, kind, startMs, endMs, attributes, isError } = span;
  const { traceId, spanId, flags } = context;
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}"` +
    (parent === undefined ? "" : `,"parentSpanId":"${parent.spanId}"`) +
    `,"flags":${flags | knowsRemote | (isParentRemote ? isRemote : 0)},"name":${JSON.stringify(name)}` +
    `,"kind":${kinds[kind]},"startTimeUnixNano":"${nanoseconds(startMs)}","endTimeUnixNano":"${nanoseconds(endMs)}"` +
    `,"attributes":[${attributes.slice(0, -1)}],"status":{${isError ? `"code":${errorCode}` : ""}}}`
  );
}

/** Returns a function that wraps encoded spans into an export message. */
export function envelopeOf(resource: Readonly<Record<string, string>>, scope: { name: string; version: string }) {
  const attributes = Object.entries(resource).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const resourceText = JSON.stringify({ attributes });
  const before = `{"resourceSpans":[{"resource":${resourceText},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[`;
  return (spans: readonly string[]): string => `${before}${spans.join(",")}]}]}]}`;
}

/** Nanoseconds as text: a number cannot hold all digits, so the fraction of a millisecond adds six. */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, "0")}`;
}

export const isSampled = ({ flags }: TraceContext): boolean => (flags & sampledFlag) !== 0;
