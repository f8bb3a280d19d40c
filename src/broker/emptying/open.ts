import type { Backend } from "../../store/contract.ts";
import type { Channels } from "../channels/channels.ts";
import type { AuthorizationCollections } from "../connect/authorization-collections.ts";
import type { PlanRevocation } from "../connections/grant-removal.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";
import type { CompanionCollections } from "./companions.ts";
import { createEmptyPage } from "./emptied-page.ts";
import { createEmptyings, type Emptyings } from "./emptying.ts";
import { type EmptyingLoop, openEmptyingLoop } from "./emptying-loop.ts";
import { createEmptyingRun } from "./emptying-run.ts";
import { createEndWays } from "./ended-ways.ts";
import { createSayGoodbye } from "./goodbye.ts";

export interface EmptyingRoom {
  readonly emptyings: Emptyings;
  readonly loop: EmptyingLoop;
}

interface EmptyingRoomOptions {
  readonly shared: SharedServices;
  /** The storage under the store, for keys alone: to open a value takes longer than to delete it. */
  readonly backend: Pick<Backend, "keys" | "discard">;
  readonly collections: SetupCollections & AuthorizationCollections & CompanionCollections;
  readonly planRevocation: PlanRevocation;
  readonly hooks: ScriptHooks;
  readonly channels: Channels;
}

export async function openEmptying(options: EmptyingRoomOptions): Promise<EmptyingRoom> {
  const { shared, backend, collections, planRevocation, hooks, channels } = options;
  const { store, environments, integrations, providers, audit, world } = shared;
  const keys: Backend["keys"] = (range) => backend.keys(range);
  const run = createEmptyingRun({
    store,
    keys,
    discard: (range, fence) => backend.discard(range, fence),
    collections,
    emptyPage: createEmptyPage({ store, keys, collections, integrations, providers, planRevocation }),
    endWays: createEndWays(collections),
    sayGoodbye: createSayGoodbye({ keys, integrations, hooks, channels }),
    audit,
    world,
  });
  const loop = await openEmptyingLoop({ store, run, world });
  return { loop, emptyings: createEmptyings({ store, collections, environments, wake: loop.wake, audit, world }) };
}
