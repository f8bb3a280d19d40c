import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Destination } from "../../gen/latchkey/v1/webhook_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { ChannelCollections } from "../channels/channel-collections.ts";
import { channelTroubles } from "../channels/troubles.ts";
import type { Access } from "../setup/access.ts";
import { type Caller, mayDo } from "../setup/caller.ts";
import type { Environments } from "../setup/environments.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { SharedCallbacks } from "../setup/shared-callbacks.ts";
import { environmentWarnings } from "./environment-warnings.ts";
import type { Replicas } from "./replicas.ts";
import { storeWarnings } from "./store-warnings.ts";
import { egressWarnings, expiryWarnings, replicaWarnings } from "./system-warnings.ts";
import type { Upkeep } from "./upkeep.ts";
import type { FoundWarning } from "./warning-list.ts";

/** What needs attention, in words. Computed when asked: nothing runs in the background. */
export interface Warnings {
  /** Returns the warnings of the environments that the caller can access, or of one. */
  ofEnvironments(caller: Caller, named: string): Promise<readonly FoundWarning[]>;
  /** Returns the warnings about the store, keys and replicas. */
  ofSystem(signal: AbortSignal): Promise<readonly FoundWarning[]>;
}

export interface WarningsOptions {
  readonly store: Store;
  readonly collections: ChannelCollections;
  readonly environments: Environments;
  readonly access: Pick<Access, "list">;
  readonly integrations: Pick<Integrations, "list" | "secretsOf">;
  readonly providers: Pick<Providers, "lookUp">;
  readonly sharedCallbacks: Pick<SharedCallbacks, "othersThan">;
  readonly destinationsOf: (environment: string) => readonly Destination[];
  readonly upkeep: Upkeep;
  readonly replicas: Pick<Replicas, "list">;
  /** What is wrong with the egress proxy; undefined: there is none. */
  readonly egressTrouble?: (() => Promise<string | undefined>) | undefined;
  readonly world: World;
}

/** Limits what is looked at. */
const firstEnvironments = { size: 1_000, token: "" };
const firstIntegrations = { size: 1_000, token: "" };
const troublesForMs = 10_000;
const firstKeys = { size: 1_000, token: "" };

export function createWarnings(options: WarningsOptions): Warnings {
  const { store, collections, environments, access, integrations, destinationsOf, upkeep, replicas, world } = options;

  /** Several open dashboards ask again and again: the channels are read for all of them together. */
  let troubles: { readonly at: number; readonly found: ReturnType<typeof channelTroubles> } | undefined;

  function recentTroubles(): ReturnType<typeof channelTroubles> {
    if (troubles === undefined || performance.now() - troubles.at > troublesForMs) {
      const found = channelTroubles({ store, collections, now: world.now });
      found.catch(() => (troubles = undefined));
      troubles = { at: performance.now(), found };
    }
    return troubles.found;
  }

  async function environmentsOf(caller: Caller, named: string): Promise<readonly Environment[]> {
    if (caller.environment !== undefined || named !== "") {
      return [await environments.get(await environments.of(caller, named))];
    }
    return (await environments.list(firstEnvironments)).items;
  }

  return {
    async ofEnvironments(caller, named) {
      const mayRead = mayDo(caller, Scope.INTEGRATIONS_READ);
      const seen = await environmentsOf(caller, named);
      const inTrouble = await recentTroubles();
      const found: FoundWarning[] = [];
      for (const environment of seen) {
        const { name } = environment;
        const filter = { environment: name, provider: "" };
        found.push(
          ...(await environmentWarnings({
            environment,
            integrations: mayRead ? (await integrations.list(filter, firstIntegrations)).items : undefined,
            destinations: destinationsOf(name),
            troubles: inTrouble.get(name) ?? { failed: 0, runOut: 0 },
            problems: options,
          })),
        );
      }
      return found;
    },
    async ofSystem(signal) {
      const nowMs = world.now();
      const { items } = await environments.list(firstEnvironments);
      const created = items.flatMap(({ createdAt }) => (createdAt === undefined ? [] : [timestampMs(createdAt)]));
      const inUseSinceMs = created.length === 0 ? undefined : Math.min(...created);
      const [ofStore, keys, running, egressTrouble] = await Promise.all([
        storeWarnings({ upkeep, nowMs, inUseSinceMs, signal }),
        access.list({ environment: "" }, firstKeys),
        replicas.list(),
        options.egressTrouble?.(),
      ]);
      return [
        ...egressWarnings(egressTrouble),
        ...ofStore,
        ...expiryWarnings(keys.items, nowMs),
        ...replicaWarnings(running),
      ];
    },
  };
}
