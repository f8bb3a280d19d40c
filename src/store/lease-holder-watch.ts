import { fromBinary } from "@bufbuild/protobuf";
import { LeaseTermSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { Entry, ProcessSessions } from "./contract.ts";

/**
 * Watches the holder of a lease and detects its death long before the lease expires. A lease that is long enough to
 * outlast a paused process would otherwise delay everyone after a kill.
 */
export interface HolderWatch {
  /**
   * Reports whether the holder is dead: its session is gone from the store, and it has not renewed since. Takes the
   * term of the lease as just read.
   */
  isDead(term: Pick<Entry, "value" | "revision">): Promise<boolean>;
}

interface WatchOptions {
  readonly sessions: ProcessSessions | undefined;
  /**
   * How long the holder must be silent after its session was found gone. A living holder that lost its connection
   * renews within this time, so it must be several times the renewal interval.
   */
  readonly silenceMs: number;
}

/** Minimum interval between session lookups. */
const lookEveryMs = 250;
/** Maximum silence that one lookup proves: a stalled store would have delayed the holder's renewals as well. */
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
        // The lease was renewed: the holder is alive, even if its earlier session ended.
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
