import type { World } from "./world.ts";

/** Logs at most one warning per peer and minute, so that clients cannot fill the disk. */
export type RareWarning = (
  message: string,
  about: {
    readonly door: string;
    readonly peer: string;
    readonly reason: string;
    /** Origin of the page that sent the request: each origin is logged separately. */
    readonly origin?: string;
    readonly environment?: string;
  },
) => void;

const everyMs = 60_000;
/** Limits the peers that are logged within a minute; addresses of one network count as one peer. */
const maxPeers = 1_000;

export function createRareWarning({ log, now }: Pick<World, "log" | "now">): RareWarning {
  const warnedAt = new Map<string, number>();
  return (message, about) => {
    const at = now();
    // The oldest come first.
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
