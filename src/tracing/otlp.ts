import type { SpanKind } from "../base/tracing.ts";
import { sampledFlag, type TraceContext } from "./trace-context.ts";

/**
 * OTLP in JSON (opentelemetry-proto, trace.proto), written as text: a span is put into words when it ends, so that no
 * batch is put into words at once while requests wait.
 */
export interface EndedSpan {
  readonly context: TraceContext;
  readonly parent: TraceContext | undefined;
  /** The parent is somebody else's. */
  readonly isParentRemote: boolean;
  readonly name: string;
  readonly kind: SpanKind;
  /** Milliseconds since 1970, with a fraction. */
  readonly startMs: number;
  readonly endMs: number;
  /** As `attribute` writes them, each with a comma behind it. */
  readonly attributes: string;
  readonly isError: boolean;
}

const kinds: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3 };
/** SpanFlags: whether it is known that the parent is remote, and whether it is. */
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

/** What stands before and behind the spans of a message, which a comma parts. */
export function envelopeOf(resource: Readonly<Record<string, string>>, scope: { name: string; version: string }) {
  const attributes = Object.entries(resource).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const resourceText = JSON.stringify({ attributes });
  const before = `{"resourceSpans":[{"resource":${resourceText},"scopeSpans":[{"scope":${JSON.stringify(scope)},"spans":[`;
  return (spans: readonly string[]): string => `${before}${spans.join(",")}]}]}]}`;
}

/** A number does not hold so many digits: the whole milliseconds, and what is left as six more. */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return `${whole}${String(Math.floor((ms - whole) * 1e6)).padStart(6, "0")}`;
}

export const isSampled = ({ flags }: TraceContext): boolean => (flags & sampledFlag) !== 0;
