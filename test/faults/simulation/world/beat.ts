/** Stands in for `base/loop/beat.ts`: its timer belongs to the program, and here a program is many processes. */
export function onBeat(everyMs: number, run: () => void): () => void {
  const own = setInterval(run, everyMs).unref();
  return () => clearInterval(own);
}
