import { randomUUID } from "node:crypto";
import type { TokenRefresh } from "../../../auth/token-refresh.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Change, type Condition, StaleWrite, type Store } from "../../../store/contract.ts";
import type { FreeLease } from "../../../store/leases.ts";
import type { LogWriter } from "../../audit/logs.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import type { KeptLease } from "./refresh-lease.ts";
import { hasCredentials, type RefreshTarget } from "./refresh-target.ts";

/** Callbacks of a refresh. Callers need not wait for its end once one of these was called. */
export interface RefreshCallbacks {
  /** The new credentials are stored and survive a crash. */
  readonly onDurable: () => void;
  /** The result cannot be stored yet. */
  readonly onStoreTrouble: (error: unknown) => void;
}

export interface AttemptCallbacks extends RefreshCallbacks {
  /** Called before sending: from then on the provider may have acted. */
  readonly onSent: () => void;
}

export interface RefreshAttempt extends AttemptCallbacks {
  readonly ref: ConnectionRef;
  readonly found: RefreshTarget;
  readonly renewal: TokenRefresh;
  /** The free lease, read together with the target and acquired in the commit of the intent. */
  readonly free: FreeLease;
  readonly log: LogWriter;
  /** The credentials may still be valid; the refresh is then logged. */
  readonly isForced: boolean;
}

/** `again`: another write changed the connection in the meantime. */
export type AttemptOutcome = "done" | "again";

/** A stored intent to refresh, with the target as it was then. */
export interface RefreshIntent {
  readonly attemptId: string;
  readonly found: RefreshTarget;
  readonly revision: number;
}

/** An attempt whose request was sent. */
export interface SentAttempt {
  readonly attempt: RefreshAttempt;
  readonly kept: KeptLease;
  readonly intent: RefreshIntent;
}

/** Parts of the commit that stores an intent. */
interface IntentCommit {
  readonly changes?: readonly Change[];
  readonly conditions?: readonly Condition[];
}

/** Returns undefined if another write changed the connection in the meantime. */
export type StoreIntent = (
  attempt: Pick<RefreshAttempt, "found" | "renewal">,
  now: RefreshTarget,
  more: IntentCommit,
) => Promise<RefreshIntent | undefined>;

interface IntentStoreOptions {
  readonly store: Store;
  readonly health: ConnectionHealth;
}

/** Stores intents before anything is sent. A process that finds an intent knows that the outcome is unknown. */
export function createIntentStore({ store, health }: IntentStoreOptions): StoreIntent {
  return async ({ found, renewal }, now, more) => {
    if (!hasCredentials(now, found.known.credentials)) return undefined;
    const attemptId = randomUUID();
    const { changes, conditions, record } = health.noteIntent(now.known, { attemptId, token: renewal.spent });
    try {
      const revision = await store.commit(
        [...(more.changes ?? []), ...changes],
        [...(more.conditions ?? []), ...conditions],
      );
      // The size is not used.
      const stored = record && { value: record, revision, bytes: 0 };
      return { attemptId, revision, found: { ...now, known: { ...now.known, record: stored } } };
    } catch (error) {
      // Another process attempts a refresh, the credentials changed, or the same ones were re-encrypted: read again.
      if (error instanceof StaleWrite) return undefined;
      throw error;
    }
  };
}
