import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { Audit } from "../../audit/audit.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import type { CallbackAnswer } from "./callback.ts";
import { isOver } from "./pending-authorizations.ts";

/** Takes pending authorizations out of the store, so that no response is used twice. */
export interface PendingClaims {
  /** Takes all authorizations that a response names by its states. Throws if it names none. */
  claimAll(answer: CallbackAnswer, redirectContext: string): Promise<ClaimedAuthorizations>;
  /** Forgets an authorization that has ended. One with several steps was kept until then, so that a crash is told. */
  release(pending: PendingAuthorization): Promise<void>;
}

export interface ClaimedAuthorizations {
  readonly first: PendingAuthorization;
  readonly others: readonly PendingAuthorization[];
}

interface PendingClaimsOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly audit: Audit;
  readonly world: World;
}

export function createPendingClaims({ store, collections, audit, world }: PendingClaimsOptions): PendingClaims {
  const { pendingAuthorizations } = collections;

  /** Removes the pending authorization, whatever the outcome. The commit decides between concurrent callers. */
  async function claim(state: string, redirectContext: string): Promise<PendingAuthorization> {
    const found = await pendingAuthorizations.get(digestOf(state));
    if (found === undefined || found.value.claimedAt !== undefined) throw unknownAuthorization();
    const { value: pending } = found;
    const isElsewhere = pending.context !== redirectContext;
    const { environment, integration } = pending;
    const entry = { actor: "browser", action: "authorization.context_mismatch", environment, targets: [integration] };
    try {
      await store.commit([
        ...pendingAuthorizations.change({ before: found, after: claimed(pending, world.now()) }),
        ...(isElsewhere ? audit.changes(entry) : []),
      ]);
    } catch (error) {
      if (error instanceof StaleWrite) throw unknownAuthorization();
      throw error;
    }
    if (isOver(pending, world.now())) throw unknownAuthorization();
    return pending;
  }

  return {
    async release({ stateHash, hasSteps }) {
      if (!hasSteps) return;
      try {
        const before = await pendingAuthorizations.get(stateHash);
        if (before !== undefined) await store.commit(pendingAuthorizations.change({ before, after: undefined }));
      } catch (err) {
        // It is deleted later: the end of its session shows that it was completed.
        world.log.debug("could not delete a finished authorization", { err });
      }
    },
    async claimAll({ state, otherStates }, redirectContext) {
      const claimed: PendingAuthorization[] = [];
      for (const one of [state, ...otherStates]) {
        const pending = await claim(one, redirectContext).catch((error: unknown) => {
          if (error instanceof Fault && error.code === "unknown_authorization") return undefined;
          throw error;
        });
        if (pending !== undefined) claimed.push(pending);
      }
      const [first, ...others] = claimed;
      if (first === undefined) throw unknownAuthorization();
      return { first, others };
    },
  };
}

const claimed = (pending: PendingAuthorization, nowMs: number): PendingAuthorization | undefined =>
  pending.hasSteps ? { ...pending, claimedAt: timestampFromMs(nowMs) } : undefined;

/** The same error for every unacceptable state, so that guessing states reveals nothing. */
export const unknownAuthorization = () =>
  new Fault("unknown_authorization", "this response belongs to no pending authorization; begin again");
