import type { Span, SpanOptions, Tracing } from "../base/tracing.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import { createExporter, type ExporterConfig } from "./exporter.ts";
import { attribute, envelopeOf, isSampled, spanText } from "./otlp.ts";
import { createSampler, type SamplerConfig } from "./sampler.ts";
import { parseTraceparent, randomFlag, sampledFlag, type TraceContext, traceparentOf } from "./trace-context.ts";
import { createTraceIds } from "./trace-ids.ts";

export interface TracingConfig extends ExporterConfig {
  readonly sampler: SamplerConfig;
  /** `service.name` and other attributes of this process. */
  readonly resource: Readonly<Record<string, string>>;
}

/** Creates OpenTelemetry spans and sends them to a collector. */
export function createTracing(config: TracingConfig, world: World): Tracing {
  const ids = createTraceIds();
  const isKept = createSampler(config.sampler);
  const exporter = createExporter(config, envelopeOf(config.resource, { name: "latchkey", version }), world);

  return {
    span(name, { kind, parent }) {
      const local = parent instanceof LocalSpan ? parent : undefined;
      const from = typeof parent === "string" ? parseTraceparent(parent) : local?.context;
      const traceId = from?.traceId ?? ids.traceId();
      const flags =
        (from === undefined ? randomFlag : from.flags & randomFlag) | (isKept(traceId, from) ? sampledFlag : 0);
      return new LocalSpan({
        context: { traceId, spanId: ids.spanId(), flags },
        parent: from,
        isParentRemote: from !== undefined && local === undefined,
        name,
        kind,
        clockOffsetMs: local?.clockOffsetMs ?? world.now() - performance.now(),
        onEnd: exporter.add,
      });
    },
    close: (withinMs) => exporter.close(withinMs),
  };
}

interface SpanStart extends Pick<SpanOptions, "kind"> {
  readonly context: TraceContext;
  readonly parent: TraceContext | undefined;
  readonly isParentRemote: boolean;
  readonly name: string;
  /** Wall-clock time of the zero of `performance.now()`. Spans of a trace share it, so that none starts before its parent. */
  readonly clockOffsetMs: number;
  readonly onEnd: (text: string) => void;
}

class LocalSpan implements Span {
  readonly context: TraceContext;
  readonly traceparent: string;
  readonly hasParent: boolean;
  readonly clockOffsetMs: number;
  readonly #start: SpanStart;
  readonly #isKept: boolean;
  readonly #startMs: number;
  #attributes = "";
  #errorType: string | undefined;
  #hasEnded = false;

  constructor(start: SpanStart) {
    this.context = start.context;
    this.traceparent = traceparentOf(start.context);
    this.hasParent = start.parent !== undefined;
    this.clockOffsetMs = start.clockOffsetMs;
    this.#start = start;
    this.#isKept = isSampled(start.context);
    this.#startMs = start.clockOffsetMs + performance.now();
  }

  set(name: string, value: string | number): void {
    if (this.#isKept) this.#attributes += attribute(name, value);
  }

  fail(errorType: string): void {
    this.#errorType ??= errorType;
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (!this.#isKept) return;
    const { onEnd, clockOffsetMs, ...start } = this.#start;
    if (this.#errorType !== undefined) this.set("error.type", this.#errorType);
    onEnd(
      spanText({
        ...start,
        startMs: this.#startMs,
        endMs: clockOffsetMs + performance.now(),
        attributes: this.#attributes,
        isError: this.#errorType !== undefined,
      }),
    );
  }
}
