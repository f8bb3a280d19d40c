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
  /** `service.name` and whatever else describes who makes these spans. */
  readonly resource: Readonly<Record<string, string>>;
}

/** Spans of OpenTelemetry's, sent to a collector. */
export function createTracing(config: TracingConfig, world: World): Tracing {
  const ids = createTraceIds();
  const isKept = createSampler(config.sampler);
  const exporter = createExporter(config, envelopeOf(config.resource, { name: "latchkey", version }), world);

  return {
    span(name, { kind, parent }) {
      const local = parent instanceof OwnSpan ? parent : undefined;
      const from = typeof parent === "string" ? parseTraceparent(parent) : local?.context;
      const traceId = from?.traceId ?? ids.traceId();
      const flags =
        (from === undefined ? randomFlag : from.flags & randomFlag) | (isKept(traceId, from) ? sampledFlag : 0);
      return new OwnSpan({
        context: { traceId, spanId: ids.spanId(), flags },
        parent: from,
        isParentRemote: from !== undefined && local === undefined,
        name,
        kind,
        beganAt: local?.beganAt ?? world.now() - performance.now(),
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
  /** What the wall clock said when the other one began: of one trace's spans it is one, so that none leaves its parent. */
  readonly beganAt: number;
  readonly onEnd: (text: string) => void;
}

class OwnSpan implements Span {
  readonly context: TraceContext;
  readonly traceparent: string;
  readonly hasParent: boolean;
  readonly beganAt: number;
  readonly #of: SpanStart;
  readonly #isKept: boolean;
  readonly #startMs: number;
  #attributes = "";
  #errorType: string | undefined;
  #hasEnded = false;

  constructor(of: SpanStart) {
    this.context = of.context;
    this.traceparent = traceparentOf(of.context);
    this.hasParent = of.parent !== undefined;
    this.beganAt = of.beganAt;
    this.#of = of;
    this.#isKept = isSampled(of.context);
    this.#startMs = of.beganAt + performance.now();
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
    const { onEnd, beganAt, ...of } = this.#of;
    if (this.#errorType !== undefined) this.set("error.type", this.#errorType);
    onEnd(
      spanText({
        ...of,
        startMs: this.#startMs,
        endMs: beganAt + performance.now(),
        attributes: this.#attributes,
        isError: this.#errorType !== undefined,
      }),
    );
  }
}
