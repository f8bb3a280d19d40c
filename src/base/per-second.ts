/** Returns a function that answers true at most `max` times a second: for work that only people notice. */
export function createPerSecond(max: number): () => boolean {
  let second = 0;
  let count = 0;
  return () => {
    const now = Math.floor(performance.now() / 1_000);
    if (now !== second) [second, count] = [now, 0];
    count += 1;
    return count <= max;
  };
}

/** People read hints; a client that repeats a wrong name in a loop does not. */
export const maxHintsPerSecond = 10;
