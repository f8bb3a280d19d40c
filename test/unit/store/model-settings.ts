const variable = (name: string): number | undefined => {
  const text = process.env[name];
  return text === undefined || text === "" ? undefined : Number(text);
};

/** Another one each time, or that of an earlier run to see it again. */
export const modelSeed = (): number => variable("LATCHKEY_MODEL_SEED") ?? Date.now() % 2 ** 31;

/** How much is asked for. */
export const modelSteps = (): number => variable("LATCHKEY_MODEL_STEPS") ?? 100_000;

/** A machine may be ten times slower than those that 100,000 steps were tried on, at a minute each. */
export const modelTimeoutMs = (): number => 60_000 + modelSteps() * 6;
