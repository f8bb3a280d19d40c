import { setTimeout as sleep } from "node:timers/promises";

/** Waits until changes may be told again. Resolves to whether the client has left. */
export async function hasLeft(leaving: AbortSignal, beatMs: number): Promise<boolean> {
  if (!leaving.aborted) await sleep(beatMs, undefined, { signal: leaving }).catch(() => {});
  return leaving.aborted;
}
