import { sampledFlag, type TraceContext } from "./trace-context.ts";

export interface SamplerConfig {
  /** As `OTEL_TRACES_SAMPLER` has it. */
  readonly name: `${"" | "parentbased_"}${keyof typeof roots}`;
  /** From 0 to 1, of the ones that go by it. */
  readonly ratio: number;
}

/** Whether a span is kept. `parent` is undefined where a trace begins. */
export type Sampler = (traceId: string, parent: TraceContext | undefined) => boolean;

export function createSampler({ name, ratio }: SamplerConfig): Sampler {
  const root = roots[name.replace("parentbased_", "") as keyof typeof roots](ratio);
  if (!name.startsWith("parentbased_")) return root;
  return (traceId, parent) => (parent === undefined ? root(traceId) : (parent.flags & sampledFlag) !== 0);
}

/** Of the 56 random bits of a trace id these are read, as many as a number holds: whoever goes by them agrees with us. */
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
