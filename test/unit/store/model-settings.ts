const variable = (name: string): number | undefined => {
  const text = process.env[name];
  return text === undefined || text === "" ? undefined : Number(text);
};

/** A new seed for each run, or that of an earlier run to repeat it. */
export const modelSeed = (): number => variable("LATCHKEY_MODEL_SEED") ?? Date.now() % 2 ** 31;

/** The number of requests; more with LATCHKEY_MODEL_STEPS. */
export const modelSteps = (): number => variable("LATCHKEY_MODEL_STEPS") ?? 30_000;

/** Ten times the duration on the reference machine, where 100,000 steps took a minute. */
export const modelTimeoutMs = (): number => 60_000 + modelSteps() * 6;
