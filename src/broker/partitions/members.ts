import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { LeaseTermSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Condition, Entry, Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";

/**
 * The processes that share the work. Each says every few seconds that it is alive: one commit, however many partitions
 * it has. A member that is silent until its term is over, by the store's clock, counts as dead.
 */
export interface Members {
  /** Says that this process is alive. */
  renew(): Promise<void>;
  readonly isRenewalDue: boolean;
  /** Time for which others certainly count this process as alive, as far as it can tell. */
  remainingMs(): number;
  /** Applies a change of a member's record; returns whether a member came or went. */
  note(id: string, record: MemberRecord | undefined): boolean;
  /** Replaces all that is known. */
  replace(records: ReadonlyMap<string, MemberRecord>): void;
  /** Looks for members that have died since. */
  findDead(): Promise<void>;
  /** Members that count as alive, with this process. */
  living(): readonly string[];
  dead(): readonly string[];
  /** Conditions that these members are still as silent as they are known to be. */
  unchanged(ids: Iterable<string>): readonly Condition[];
  /** The change that deletes the record of a dead member. */
  forgetting(id: string): Change;
  /** The changes that delete the record of this process. */
  leaving(): readonly Change[];
}

export type MemberRecord = Pick<Entry, "value" | "revision">;

interface MembersOptions {
  readonly store: Store;
  /** ID of this process. */
  readonly id: string;
  readonly termMs: number;
}

interface KnownMember {
  readonly revision: number;
  readonly untilMs: number;
  readonly lengthMs: number;
  /** When to ask the store's clock whether the term is over. */
  lookAt: number;
  isDead: boolean;
}

export const memberSpace = "member";
const memberKey = (id: string): string => keyOf(memberSpace, id);

const renewShare = 0.3;
/** Renewals are seen late: a member's term may end this share after its last one was seen. The clock tells. */
const lookShare = 0.6;
/** Safety margin before expiry: clocks of two machines run at different speeds, and a response takes time. */
const marginShare = 0.1;
/** After an outage of the store, others get this share of a term to renew before they count as dead. */
const graceShare = 0.4;

export function createMembers({ store, id, termMs }: MembersOptions): Members {
  const known = new Map<string, KnownMember>();
  let renewedAt = Number.NEGATIVE_INFINITY;
  let triedAt = Number.NEGATIVE_INFINITY;
  /** Since when the others could have renewed too. */
  let answersSince = Number.NEGATIVE_INFINITY;

  const remainingMs = (): number => Math.max(0, renewedAt + termMs * (1 - marginShare) - performance.now());

  function learn(at: string, { value, revision }: MemberRecord, lookAt: number): void {
    const { untilMs, lengthMs } = fromBinary(LeaseTermSchema, value);
    known.set(at, { revision, untilMs, lengthMs, lookAt, isDead: false });
  }

  return {
    async renew() {
      const begunAt = performance.now();
      triedAt = begunAt;
      const wasAlive = remainingMs() > 0;
      const untilMs = (await store.clock()) + termMs;
      const session = store.sessions?.current() ?? "";
      const term = create(LeaseTermSchema, { untilMs, lengthMs: termMs, session });
      await store.commit([{ key: memberKey(id), value: toBinary(LeaseTermSchema, term) }]);
      if (!wasAlive && renewedAt > 0) {
        answersSince = performance.now();
        // Others may have taken this process's partitions meanwhile: see that before anything is done under them.
        await store.caughtUp();
      }
      renewedAt = begunAt;
    },
    get isRenewalDue() {
      return performance.now() - triedAt >= termMs * renewShare;
    },
    remainingMs,
    note(at, record) {
      if (at === id) return false;
      const before = known.get(at);
      if (record === undefined) return known.delete(at);
      if (before !== undefined && before.revision >= record.revision) return false;
      learn(at, record, performance.now() + termMs * lookShare);
      return before === undefined || before.isDead;
    },
    replace(records) {
      known.clear();
      // Nothing tells how long ago these were renewed: ask the clock at once.
      for (const [at, record] of records) if (at !== id) learn(at, record, Number.NEGATIVE_INFINITY);
    },
    async findDead() {
      const now = performance.now();
      if (now - answersSince < termMs * graceShare) return;
      const silent = [...known.values()].filter(({ isDead, lookAt }) => !isDead && lookAt <= now);
      if (silent.length === 0) return;
      const clockMs = await store.clock();
      for (const member of silent) {
        // A term with more left than its length was stored before the clock was set back.
        const leftMs = member.untilMs - clockMs;
        member.isDead = leftMs <= 0 || leftMs > member.lengthMs;
        member.lookAt = performance.now() + leftMs;
      }
    },
    living: () => [id, ...[...known].filter(([, { isDead }]) => !isDead).map(([at]) => at)].sort(),
    dead: () => [...known].filter(([, { isDead }]) => isDead).map(([at]) => at),
    unchanged: (ids) => [...ids].map((at) => ({ key: memberKey(at), expect: known.get(at)?.revision ?? 0 })),
    forgetting: (at) => ({ key: memberKey(at), value: undefined, expect: known.get(at)?.revision ?? 0 }),
    leaving: () => [{ key: memberKey(id), value: undefined }],
  };
}

/** The member of a store that no other process can open: it is alive as long as it runs, and need not say so. */
export const onlyMember = (id: string): Members => ({
  renew: async () => {},
  isRenewalDue: false,
  remainingMs: () => Number.POSITIVE_INFINITY,
  note: () => false,
  replace() {},
  findDead: async () => {},
  living: () => [id],
  dead: () => [],
  unchanged: () => [],
  forgetting: (at) => ({ key: memberKey(at), value: undefined }),
  leaving: () => [],
});
