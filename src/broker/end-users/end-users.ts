import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { StoredEndUserDeletionSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Revocation } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  type EndUserDeletion,
  EndUserDeletion_State,
  EndUserDeletionSchema,
} from "../../gen/latchkey/v1/end_user_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { ListRevocations } from "../revocations/revocation-list.ts";
import type { EndUserCollections } from "./end-user-collections.ts";

/** Ends everything that an end user has in an environment. */
export interface EndUsers {
  /** Stores the request, so that it survives a crash, and waits a while for its end. Joins one that is under way. */
  delete(request: EndUserRequest, actor: string): Promise<EndUserDeletion>;
  /** Returns the report of the last deletion. */
  deletionOf(ref: EndUserRef): Promise<EndUserDeletion>;
}

export interface EndUserRef {
  readonly environment: string;
  readonly endUserId: string;
}

interface EndUserRequest extends EndUserRef {
  /** Undefined: each integration decides. */
  readonly keepGrant: boolean | undefined;
}

interface EndUsersOptions {
  readonly store: Store;
  readonly collections: EndUserCollections;
  readonly listRevocations: ListRevocations;
  /** Begins the work of this replica, if it has the lease. */
  readonly wake: () => void;
  readonly audit: Audit;
  readonly world: World;
}

const waitMs = 20_000;
const lookEveryMs = 50;
const mostRevocations = 1_000;

export function createEndUsers(options: EndUsersOptions): EndUsers {
  const { store, collections, listRevocations, wake, audit, world } = options;
  const { endUserDeletions } = collections;

  const read = ({ environment, endUserId }: EndUserRef) => endUserDeletions.get(environment, digestOf(endUserId));

  async function withRevocations(deletion: EndUserDeletion): Promise<EndUserDeletion> {
    const { environment, endUserId, createdAt } = deletion;
    const sinceMs = createdAt === undefined ? 0 : timestampMs(createdAt);
    const filter = { environment, integration: "", connectionId: "", endUserId, states: [], sinceMs };
    const revocations: Revocation[] = [];
    for (let token = ""; revocations.length < mostRevocations; ) {
      const { items, next } = await listRevocations(filter, { size: mostRevocations - revocations.length, token });
      revocations.push(...items);
      if (next === "") break;
      token = next;
    }
    return { ...deletion, revocations };
  }

  return {
    async delete({ environment, endUserId, keepGrant }, actor) {
      const ref = { environment, endUserId };
      await transact(store, async () => {
        const before = await read(ref);
        if (before?.value.deletion?.state === EndUserDeletion_State.RUNNING) return { changes: [], result: undefined };
        const nowMs = world.now();
        const after = create(StoredEndUserDeletionSchema, {
          actor,
          dueMs: nowMs,
          ...(keepGrant === undefined ? {} : { keepGrant }),
          deletion: create(EndUserDeletionSchema, {
            ...ref,
            state: EndUserDeletion_State.RUNNING,
            createdAt: timestampFromMs(nowMs),
          }),
        });
        return {
          changes: [
            ...endUserDeletions.change({ before, after }),
            ...audit.changes({ actor, action: "end_user.delete", environment, targets: [endUserId] }),
          ],
          result: undefined,
        };
      });
      wake();
      const until = performance.now() + waitMs;
      for (;;) {
        const deletion = (await read(ref))?.value.deletion;
        const isOver = deletion === undefined || deletion.state !== EndUserDeletion_State.RUNNING;
        if (deletion !== undefined && (isOver || performance.now() > until)) return withRevocations(deletion);
        await sleep(lookEveryMs);
      }
    },
    async deletionOf(ref) {
      const deletion = (await read(ref))?.value.deletion;
      if (deletion === undefined) throw new Fault("not_found", "no deletion of this end user is known");
      return withRevocations(deletion);
    },
  };
}
