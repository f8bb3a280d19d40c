import type { World } from "./world.ts";

/** Warns of a peer once a minute, however much it sends: noise from outside must not fill a disk. */
export type RareWarning = (
  message: string,
  about: {
    readonly door: string;
    readonly peer: string;
    readonly reason: string;
    /** Of the page that sent the request: each is warned of by itself. */
    readonly origin?: string;
    readonly environment?: string;
  },
) => void;

const everyMs = 60_000;
/** So many peers at most are warned of within the minute; whoever has a whole network to come from is one of them. */
const maxPeers = 1_000;

export function createRareWarning({ log, now }: Pick<World, "log" | "now">): RareWarning {
  const warnedAt = new Map<string, number>();
  return (message, about) => {
    const at = now();
    // The oldest stand first.
    for (const [peer, before] of warnedAt) {
      if (Math.abs(at - before) < everyMs) break;
      warnedAt.delete(peer);
    }
    const key = `${about.door} ${about.origin ?? about.peer}`;
    if (warnedAt.has(key) || warnedAt.size >= maxPeers) return;
    warnedAt.set(key, at);
    log.warn(message, about);
  };
}
