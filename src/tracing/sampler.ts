import { sampledFlag, type TraceContext } from "./trace-context.ts";

export interface SamplerConfig {
  /** A value of `OTEL_TRACES_SAMPLER`. */
  readonly name: `${"" | "parentbased_"}${keyof typeof roots}`;
  /** The sampled share from 0 to 1, for the samplers named `traceidratio`. */
  readonly ratio: number;
}

/** Whether a span is kept. `parent` is undefined where a trace begins. */
export type Sampler = (traceId: string, parent: TraceContext | undefined) => boolean;

export function createSampler({ name, ratio }: SamplerConfig): Sampler {
  const root = roots[name.replace("parentbased_", "") as keyof typeof roots](ratio);
  if (!name.startsWith("parentbased_")) return root;
  return (traceId, parent) => (parent === undefined ? root(traceId) : (parent.flags & sampledFlag) !== 0);
}

/** Reads 52 of the 56 random bits of a trace id, as many as a number holds; other samplers use the same bits. */
const digits = 13;
const all = 16 ** digits;

const roots = {
  always_on: () => () => true,
  always_off: () => () => false,
  // OpenTelemetry's consistent sampling: random bits at or above a threshold.
  traceidratio: (ratio: number) => {
    const threshold = Math.round((1 - ratio) * all);
    return (traceId: string) => Number.parseInt(traceId.slice(18, 18 + digits), 16) >= threshold;
  },
} as const satisfies Record<string, (ratio: number) => (traceId: string) => boolean>;
