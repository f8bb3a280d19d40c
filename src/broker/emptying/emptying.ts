import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { StoredEmptyingSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Emptying, Emptying_State, EmptyingSchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Environments } from "../setup/environments.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";

/** Deletes all connections of an environment. */
export interface Emptyings {
  /** Stores the request, so that it survives a crash, and waits a while for its end. Joins one that is under way. */
  empty(request: EmptyingRequest, actor: string): Promise<Emptying>;
  /** Returns the report of the last emptying. */
  reportOf(environment: string): Promise<Emptying>;
}

interface EmptyingRequest {
  readonly environment: string;
  /** Undefined: each integration decides. */
  readonly keepGrant: boolean | undefined;
}

interface EmptyingsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly environments: Pick<Environments, "get">;
  /** Begins the work of this replica, if it has the lease. */
  readonly wake: () => void;
  readonly audit: Audit;
  readonly world: World;
}

const waitMs = 20_000;
const lookEveryMs = 50;

export function createEmptyings(options: EmptyingsOptions): Emptyings {
  const { store, collections, environments, wake, audit, world } = options;
  const { emptyings } = collections;

  return {
    async empty({ environment, keepGrant }, actor) {
      await environments.get(environment);
      await transact(store, async () => {
        const before = await emptyings.get(environment);
        if (before?.value.emptying?.state === Emptying_State.RUNNING) return { changes: [], result: undefined };
        const after = create(StoredEmptyingSchema, {
          actor,
          ...(keepGrant === undefined ? {} : { keepGrant }),
          emptying: create(EmptyingSchema, {
            environment,
            state: Emptying_State.RUNNING,
            createdAt: timestampFromMs(world.now()),
          }),
        });
        return {
          changes: [
            ...emptyings.change({ before, after }),
            ...audit.changes({ actor, action: "environment.empty", environment, targets: [environment] }),
          ],
          result: undefined,
        };
      });
      wake();
      const until = performance.now() + waitMs;
      for (;;) {
        const emptying = (await emptyings.get(environment))?.value.emptying;
        if (emptying === undefined) throw noEmptying();
        if (emptying.state !== Emptying_State.RUNNING || performance.now() > until) return emptying;
        await sleep(lookEveryMs);
      }
    },
    async reportOf(environment) {
      await environments.get(environment);
      const emptying = (await emptyings.get(environment))?.value.emptying;
      if (emptying === undefined) throw noEmptying();
      return emptying;
    },
  };
}

const noEmptying = () => new Fault("not_found", "no emptying of this environment is known");
