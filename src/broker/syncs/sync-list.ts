import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { ScriptHost } from "../../core/scripts/script.ts";
import { baseVariant, newSync, runOf } from "../../core/scripts/sync-state.ts";
import type { StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Sync, Sync_State, SyncRefSchema, SyncSchema } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Connections } from "../connections/connections.ts";
import type { SyncRecords } from "../records/sync-records.ts";
import type { Integrations } from "../setup/integrations.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Runs } from "./runs/runs.ts";
import type { SyncCollections } from "./sync-collections.ts";
import type { SyncScripts } from "./sync-scripts.ts";

/** Shows syncs to callers: with their schedule, their latest run and their counts of records. */
export interface SyncList {
  /** Lists syncs: of a connection, all that have scripts; of an integration, the stored ones. */
  list(filter: SyncFilter, page: PageOptions): Promise<PageOf<Sync>>;
  show(sync: StoredSync): Promise<Sync>;
}

export interface SyncFilter {
  readonly environment: string;
  readonly integration: string;
  /** Empty for all connections. */
  readonly connectionId: string;
  /** Names in the form `name` or `name::variant`; empty for all. */
  readonly names: readonly string[];
}

interface SyncListOptions {
  readonly collections: SyncCollections;
  readonly scripts: Pick<ScriptHost, "find">;
  readonly syncScripts: SyncScripts;
  readonly runs: Pick<Runs, "stored">;
  readonly records: Pick<SyncRecords, "counts">;
  readonly connections: Pick<Connections, "get">;
  readonly integrations: Pick<Integrations, "get">;
  readonly world: World;
}

export function createSyncList(options: SyncListOptions): SyncList {
  const { scripts, syncScripts, runs, records, connections, integrations, world } = options;
  const { syncs } = options.collections;

  async function show(sync: StoredSync): Promise<Sync> {
    const { environment, integration, connectionId, name, variant } = sync;
    const ref = create(ConnectionRefSchema, { environment, integration, id: connectionId });
    const script = scripts.find({ integration, kind: "sync", name });
    const models = script?.kind === "sync" ? Object.keys(script.models) : [];
    const latestId = sync.runningId || sync.endedId || sync.queuedId;
    const latest = await runs.stored({ environment, id: latestId });
    const frequency = sync.frequency || (script?.kind === "sync" ? script.frequency : "");
    const { dueMs, lastRunAt, checkpoint } = sync;
    return create(SyncSchema, {
      ref: create(SyncRefSchema, { connection: ref, name, variant }),
      state: stateOf(sync),
      frequency,
      ...(dueMs > 0 && !sync.paused && { nextRunAt: timestampFromMs(dueMs) }),
      ...(lastRunAt !== undefined && { lastRunAt }),
      ...(checkpoint !== undefined && { checkpoint }),
      recordCounts: await countsOf(ref, { variant, models }),
      ...(latest !== undefined && { latestRun: runOf(latest.value) }),
      revision: sync.revision,
    });
  }

  /** Returns the number of records of a sync's models. */
  async function countsOf(ref: ConnectionRef, of: { readonly variant: string; readonly models: readonly string[] }) {
    const found = await records.counts(ref);
    const counted = of.models.map((name): [string, bigint] => [
      name,
      BigInt(found.find(({ model, variant }) => model === name && variant === of.variant)?.count ?? 0),
    ]);
    return Object.fromEntries(counted);
  }

  /** Returns the syncs of one connection: the stored ones, and those that its scripts define. */
  async function ofConnection(filter: SyncFilter): Promise<StoredSync[]> {
    const { environment, integration, connectionId, names } = filter;
    const ref = create(ConnectionRefSchema, { environment, integration, id: connectionId });
    await connections.get(ref);
    const under = [environment, integration, connectionId];
    const found = (await syncs.page({ under, limit: Number.MAX_SAFE_INTEGER })).map(({ value }) => value);
    const isStored = (name: string, variant: string) =>
      found.some((one) => one.name === name && one.variant === variant);
    const others = syncScripts
      .named(integration, names)
      .filter(({ script, variant }) => variant === baseVariant && !isStored(script.name, variant))
      .map(({ script: { name, autoStart } }) =>
        newSync({ ref, name, variant: baseVariant, autoStart, nowMs: world.now() }),
      );
    return [...found.filter((one) => isNamed(one, names)), ...others].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  return {
    show,
    async list(filter, page) {
      const { environment, integration, connectionId, names } = filter;
      if (namesNothing(environment, integration, connectionId)) return { items: [], next: "" };
      if (connectionId !== "") return { items: await Promise.all((await ofConnection(filter)).map(show)), next: "" };
      await integrations.get({ environment, key: integration });
      // Throws if a named sync does not exist.
      syncScripts.named(integration, names);
      const { items, next } = await listPage<StoredSync>({
        question: ["syncs", filter],
        page,
        read: (request) => syncs.page({ under: [environment, integration], ...request }),
      });
      return { items: await Promise.all(items.filter((one) => isNamed(one, names)).map(show)), next };
    },
  };
}

const isNamed = ({ name, variant }: StoredSync, names: readonly string[]): boolean =>
  names.length === 0 || names.includes(`${name}::${variant}`) || (variant === baseVariant && names.includes(name));

function stateOf({ runningId, paused, failed }: StoredSync): Sync_State {
  if (runningId !== "") return Sync_State.RUNNING;
  if (paused) return Sync_State.PAUSED;
  return failed ? Sync_State.FAILED : Sync_State.SCHEDULED;
}
