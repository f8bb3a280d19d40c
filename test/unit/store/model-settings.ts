import { seedOf } from "../../support/runner/seeded.ts";

const variable = (name: string): number | undefined => {
  const text = process.env[name];
  return text === undefined || text === "" ? undefined : Number(text);
};

export const modelSeed = (): number => seedOf("LATCHKEY_MODEL_SEED");

/** The number of requests, with 8 crashes; more with LATCHKEY_MODEL_STEPS. */
export const modelSteps = (): number => variable("LATCHKEY_MODEL_STEPS") ?? 12_000;

/** Ten times the duration on the reference machine, where 100,000 steps took a minute. */
export const modelTimeoutMs = (): number => 60_000 + modelSteps() * 6;
