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

/** A new seed for each run, or that of an earlier run to repeat it. */
export const faultSeed = (): number => Number(process.env["LATCHKEY_FAULT_SEED"] ?? Date.now() % 2 ** 31);
