/** The same numbers every time, so that a red run can be run again (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A whole number below `n`. */
export const below = (random: () => number, n: number): number => Math.floor(random() * n);

export const randomSeed = (): number => Date.now() % 2 ** 31;

/** A seed that a variable names: `random` draws and prints one, and without the variable every run is the same. */
export function seedOf(variable: string, fixed = 1): number {
  const text = process.env[variable];
  if (text === undefined || text === "") return fixed;
  if (text !== "random") return Number(text);
  const seed = randomSeed();
  process.stdout.write(`${variable}=${seed}\n`);
  return seed;
}

export const faultSeed = (): number => seedOf("LATCHKEY_FAULT_SEED");

/**
 * Seeds of a fuzz test: fixed ones in the suite, so that every run is the same. LATCHKEY_FUZZ_SEED names another one,
 * or `random`; LATCHKEY_FUZZ_RUNS is the number of random ones.
 */
export function fuzzSeeds(fixed: readonly number[]): readonly number[] {
  const text = process.env["LATCHKEY_FUZZ_SEED"];
  if (text === undefined || text === "") return fixed;
  if (text !== "random") return [Number(text)];
  const first = randomSeed();
  return Array.from(
    { length: Number(process.env["LATCHKEY_FUZZ_RUNS"] ?? 1) },
    (_, i) => (first + i * 7_919) % 2 ** 31,
  );
}
