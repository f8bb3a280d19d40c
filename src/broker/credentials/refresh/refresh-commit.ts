import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../../base/fault.ts";
import type { Log } from "../../../base/log.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../gen/latchkey/v1/credentials_pb.ts";
import { StaleWrite, type Store, StoreUnavailable } from "../../../store/contract.ts";
import type { FreeLease } from "../../../store/leases.ts";
import { SealKeyMissing } from "../../../store/sealed/seal-key.ts";
import type { HealthUpdate } from "../../connections/health/refresh-updates.ts";
import { credentialsChange } from "../../connections/health/snapshot.ts";
import type { SentAttempt } from "./refresh-attempt.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import { hasCredentials, isDead, logFieldsOf, type ReadTarget, type RefreshTarget } from "./refresh-target.ts";

/** Undefined while another process refreshes the connection. */
export type FindLease = (ref: ConnectionRef) => Promise<FreeLease | undefined>;

/** `refused`: the provider has refused the grant in the meantime. `overtaken`: other credentials were stored. */
export type RefreshCommitOutcome = "written" | "overtaken" | "refused";

/**
 * Commits the result of an attempt, and decides again each time another part of the connection changes. Ends when the
 * connection's credentials have changed. If others write to the connection without pause, `credentials` are stored
 * alone first.
 */
export type CommitResult = (
  sent: SentAttempt,
  decide: (now: RefreshTarget) => HealthUpdate | Promise<HealthUpdate>,
  credentials?: Credentials,
) => Promise<RefreshCommitOutcome>;

interface ResultCommitOptions {
  readonly read: ReadTarget;
  readonly findLease: FindLease;
  readonly store: Store;
  readonly pace: RefreshPace;
  /** True when running attempts must be abandoned. */
  readonly isOver: () => boolean;
  readonly log: Log;
}

/**
 * A token request has 60 s and may be sent twice. Callers that wait longer than this get an error that asks for a
 * retry.
 */
export const patienceMs = 75_000;
/** Wait between checks while another process refreshes. */
export const lookAgainMs = 100;
const storeRetryMs = 1_000;

export function createResultCommit(options: ResultCommitOptions): CommitResult {
  const { read, findLease, store, pace, isOver, log } = options;

  return async ({ attempt, kept, intent }, decide, credentials) => {
    const { ref, found, onDurable, onStoreTrouble } = attempt;
    /** Only a late success refreshes a dead grant again. */
    const wasDead = isDead(found);
    const until = performance.now() + patienceMs;
    /** The state after the intent. If it has changed, the commit is refused, and only then the state is read again. */
    let known: RefreshTarget | undefined = intent.found;
    let isDurable = false;
    for (let commits = 0; ; ) {
      const leave = pace.enter();
      try {
        const now = known ?? (await read(ref));
        known = undefined;
        const isOurs = isDurable && credentials !== undefined && hasCredentials(now, credentials);
        if (!isOurs && !hasCredentials(now, found.known.credentials)) return isDurable ? "written" : "overtaken";
        // A further token is refreshed whatever became of the main one.
        const isMain = attempt.renewal.further === undefined;
        if (!isOurs && isMain && isDead(now) && !wasDead) return "refused";
        // The lease was lost, and another process has sent a request since. Its result is newer, so wait for that
        // first.
        const open = now.known.record?.value.intent?.attemptId ?? intent.attemptId;
        if (open !== intent.attemptId && !isOurs && performance.now() < until && !isOver()) {
          leave();
          // If that process is gone, its attempt will never have a result.
          if ((await findLease(ref)) === undefined) {
            await sleep(lookAgainMs);
            continue;
          }
        }
        if (commits > 1 && !isDurable && credentials !== undefined) {
          await store.commit([credentialsChange(now.known, credentials)]);
          isDurable = true;
          onDurable();
          continue;
        }
        const { changes, conditions } = await decide(now);
        // A lost lease must not prevent storing the response: only the first commits depend on the lease.
        const released = commits > 1 ? [] : kept.lease.releasing();
        commits += 1;
        await store.commit([...changes, ...released], conditions);
        if (released.length > 0) kept.onReleased();
        return "written";
      } catch (error) {
        if (error instanceof StaleWrite) continue;
        // The connection was deleted in the meantime.
        if (error instanceof Fault) return "overtaken";
        if (!isRetryable(error) || isOver()) throw error;
        log.warn("refresh result not stored; retrying every second", { ...logFieldsOf(ref), err: error });
        onStoreTrouble(error);
        leave();
        await sleep(storeRetryMs);
      } finally {
        leave();
      }
    }
  };
}

/** A missing seal key, introduced by a re-seal, is retried too: the response cannot be requested again. */
const isRetryable = (error: unknown): boolean => error instanceof StoreUnavailable || error instanceof SealKeyMissing;
