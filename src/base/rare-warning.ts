import type { World } from "./world.ts";

/** Warns of a peer once a minute, however much it sends: noise from outside must not fill a disk. */
export type RareWarning = (
  message: string,
  about: { readonly door: string; readonly peer: string; readonly reason: string },
) => void;

const everyMs = 60_000;
const maxPeers = 10_000;

export function createRareWarning({ log, now }: Pick<World, "log" | "now">): RareWarning {
  const lastAt = new Map<string, number>();
  return (message, about) => {
    const key = `${about.door} ${about.peer}`;
    const at = now();
    if (at - (lastAt.get(key) ?? Number.NEGATIVE_INFINITY) < everyMs) return;
    if (lastAt.size >= maxPeers) lastAt.clear();
    lastAt.set(key, at);
    log.warn(message, about);
  };
}
