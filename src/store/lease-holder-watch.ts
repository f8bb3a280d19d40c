import { fromBinary } from "@bufbuild/protobuf";
import { LeaseTermSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Entry, ProcessSessions } from "./contract.ts";

/**
 * Watches the holder of one lease and says when that process has died, long before the lease runs out. A lease that
 * is long enough to outlast a paused process would otherwise hold up everybody behind a killed one.
 */
export interface HolderWatch {
  /**
   * Whether the holder is dead: its session at the store is gone, and it has renewed nothing since. Asked with the
   * term of the lease as it was just read.
   */
  isDead(term: Pick<Entry, "value" | "revision">): Promise<boolean>;
}

interface WatchOptions {
  readonly sessions: ProcessSessions | undefined;
  /**
   * How long the holder must be silent after its session was found gone. A living holder that lost its connection
   * renews within this time: it must be several times the interval of renewals.
   */
  readonly silenceMs: number;
}

/** Sessions are looked up this often at most. */
const lookEveryMs = 250;
/** The most silence that one look proves: a store that stood still held up the holder's renewals as well. */
const maxSilenceOfLookMs = 2 * lookEveryMs;

export function watchHolder({ sessions, silenceMs }: WatchOptions): HolderWatch {
  let revision = -1;
  let isGone = false;
  let silentMs = 0;
  let lookedAt = Number.NEGATIVE_INFINITY;
  return {
    async isDead(term) {
      const { session } = fromBinary(LeaseTermSchema, term.value);
      if (sessions === undefined || session === "") return false;
      if (term.revision !== revision) {
        // It was renewed: the holder lives, whatever became of the session that was looked up before.
        revision = term.revision;
        isGone = false;
      }
      const sinceLookMs = performance.now() - lookedAt;
      if (sinceLookMs < lookEveryMs) return false;
      lookedAt = performance.now();
      const wasGone = isGone;
      isGone = await sessions.hasEnded(session);
      silentMs = isGone && wasGone ? silentMs + Math.min(sinceLookMs, maxSilenceOfLookMs) : 0;
      return silentMs >= silenceMs;
    },
  };
}
