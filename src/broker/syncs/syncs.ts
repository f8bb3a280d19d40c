import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { parseFrequency } from "../../core/scripts/frequency.ts";
import type { ScriptHost, SyncScript } from "../../core/scripts/script.ts";
import { asked, baseVariant, isLive, newSync, runOf, type SyncPlace } from "../../core/scripts/sync-state.ts";
import type { StoredRun, StoredSync } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import {
  type TriggerSyncRequest_Mode as Mode,
  Run_State,
  type Sync,
  Sync_State,
  SyncRefSchema,
  SyncSchema,
} from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import { type Connections, targetOf } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { SyncRecords } from "../records/sync-records.ts";
import type { Integrations } from "../setup/integrations.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { listPage, type PageOf, type PageOptions } from "../stored/paging.ts";
import type { Runs } from "./runs.ts";
import type { SyncCollections } from "./sync-collections.ts";

/** Syncs of connections: the state of each, and the operator's settings. The run scheduler runs them. */
export interface Syncs {
  /** Lists syncs: of a connection, all that have scripts; of an integration, the stored ones. */
  list(filter: SyncFilter, page: PageOptions): Promise<PageOf<Sync>>;
  /** Queues runs and returns their ids. A sync with a queued run keeps that run. */
  trigger(asked: Trigger, actor: string): Promise<readonly string[]>;
  start(at: SyncAt, actor: string): Promise<Sync>;
  pause(at: SyncAt, actor: string): Promise<Sync>;
  /** Sets a sync's own frequency; empty for its script's. */
  setFrequency(at: SyncAt & { readonly frequency: string }, actor: string): Promise<Sync>;
  addVariant(place: SyncPlace, actor: string): Promise<Sync>;
  removeVariant(place: SyncPlace, actor: string): Promise<void>;
  /** Returns an integration's syncs with these names, each with its named variant. */
  named(integration: string, names: readonly string[]): readonly NamedSync[];
  /** Returns the changes that add the syncs that start automatically, for the commit of a new connection. */
  addedFor(ref: ConnectionRef, nowMs: number): Promise<Change[]>;
  /** Returns the changes that remove all syncs, for the commit of a connection's deletion. */
  removedFor(ref: ConnectionRef): Promise<Change[]>;
}

export interface NamedSync {
  readonly script: SyncScript;
  readonly variant: string;
}

export interface SyncAt extends SyncPlace {
  readonly expectedRevision: bigint;
}

export interface SyncFilter {
  readonly environment: string;
  readonly integration: string;
  /** Empty for all connections. */
  readonly connectionId: string;
  /** Names in the form `name` or `name::variant`; empty for all. */
  readonly names: readonly string[];
}

export interface Trigger extends SyncFilter {
  readonly mode: Mode;
  /** Cause of the runs; defaults to `trigger`. */
  readonly cause?: string;
}

type RunMode = Pick<Trigger, "mode" | "cause">;

interface SyncsOptions {
  readonly store: Store;
  readonly collections: ConnectionCollections & SyncCollections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly records: Pick<SyncRecords, "counts">;
  readonly audit: Audit;
  readonly world: World;
}

/** Connections that are triggered together in one commit. */
const perCommit = 25;
const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

export function createSyncs(options: SyncsOptions): Syncs {
  const { store, collections, scripts, runs, connections, integrations, destinations, records } = options;
  const { audit, world } = options;
  const { syncs } = collections;

  const scriptsOf = (integration: string): SyncScript[] =>
    scripts
      .all()
      .filter((script): script is SyncScript => script.kind === "sync" && script.integration === integration);

  function scriptOf(integration: string, name: string): SyncScript {
    const found = scripts.find({ integration, kind: "sync", name });
    if (found?.kind === "sync") return found;
    throw new Fault("unknown_sync", `the integration "${integration}" has no sync "${name}"`);
  }

  function named(integration: string, names: readonly string[]): readonly NamedSync[] {
    if (names.length === 0) return scriptsOf(integration).map((script) => ({ script, variant: baseVariant }));
    const full = names.map((one) => {
      const [name = "", variant = ""] = one.split("::");
      return `${name}::${variant || baseVariant}`;
    });
    return [...new Set(full)].map((one) => {
      const [name = "", variant = ""] = one.split("::");
      return { script: scriptOf(integration, name), variant };
    });
  }

  const partsOf = ({ ref, name, variant }: SyncPlace): readonly string[] => [
    ...[ref.environment, ref.integration, ref.id],
    ...[name, variant],
  ];

  const before = async (place: SyncPlace): Promise<StoredRecordOf<StoredSync> | undefined> =>
    namesNothing(...partsOf(place)) ? undefined : syncs.get(...partsOf(place));

  /** Returns the stored sync, or a new one for the base variant. Throws for a variant that was not created. */
  function standing(found: StoredRecordOf<StoredSync> | undefined, place: SyncPlace, script: SyncScript): StoredSync {
    if (found !== undefined) return found.value;
    if (place.variant !== baseVariant) throw noVariant(place);
    return newSync({ ...place, autoStart: script.autoStart, nowMs: world.now() });
  }

  async function waiting({ environment, queuedId: id }: StoredSync): Promise<StoredRecordOf<StoredRun> | undefined> {
    const found = await runs.stored({ environment, id });
    return found !== undefined && runOf(found.value).state === Run_State.QUEUED ? found : undefined;
  }

  const environmentIdOf = (environment: string): string => destinations.environmentByName(environment)?.id ?? "";

  /** Returns the changes that queue a run of a sync now, and the id of the run. */
  async function triggering(place: SyncPlace, script: SyncScript, { mode, cause = "trigger" }: RunMode) {
    const { environment, integration, id: connectionId } = place.ref;
    const connection = await collections.connections.get(environment, integration, connectionId);
    // The connection was deleted after it was listed.
    if (connection === undefined) return { changes: [], conditions: [], id: undefined };
    const found = await before(place);
    const sync = standing(found, place, script);
    const queued = await waiting(sync);
    const nowMs = world.now();
    const environmentId = environmentIdOf(place.ref.environment);
    const moved = asked(sync, queued?.value, { id: sequentialId(nowMs), cause, mode, environmentId, nowMs });
    const runChanges =
      queued === undefined ? runs.added(moved.run) : collections.runs.change({ before: queued, after: moved.run });
    return {
      changes: [...syncs.change({ before: found, after: moved.sync }), ...runChanges],
      conditions: [collections.connections.unchanged(connection)],
      id: runOf(moved.run).id,
    };
  }

  async function* connectionsOf({
    environment,
    integration,
    connectionId,
  }: SyncFilter): AsyncGenerator<ConnectionRef[]> {
    if (connectionId !== "") {
      const ref = create(ConnectionRefSchema, { environment, integration, id: connectionId });
      await connections.get(ref);
      yield [ref];
      return;
    }
    await integrations.get({ environment, key: integration });
    let after: string | undefined;
    for (;;) {
      const page = await collections.connections.page({ under: [environment, integration], after, limit: perCommit });
      yield page.flatMap(({ value }) => value.ref ?? []);
      after = page.at(-1)?.position;
      if (page.length < perCommit) return;
    }
  }

  async function shown(found: readonly StoredSync[]): Promise<Sync[]> {
    return Promise.all(
      found.map(async (sync) => {
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
      }),
    );
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

  async function change(
    { expectedRevision, ...place }: SyncAt,
    { action, actor }: { readonly action: string; readonly actor: string },
    move: (sync: StoredSync, script: SyncScript) => StoredSync,
  ): Promise<Sync> {
    const { ref, name } = place;
    const script = scriptOf(ref.integration, name);
    const { result, revision } = await transact(store, async () => {
      const connection = await connections.get(ref);
      const found = await before(place);
      if (expectedRevision !== 0n) requireRevision(found, expectedRevision);
      const sync = standing(found, place, script);
      const after = move(sync, script);
      return {
        changes: [
          ...syncs.change({ before: found, after }),
          ...audit.changes({ actor, action, environment: ref.environment, targets: [`${targetOf(ref)}/${name}`] }),
        ],
        conditions: [collections.connections.unchanged(connection)],
        result: after,
      };
    });
    const [sync] = await shown([{ ...result, revision: BigInt(revision) }]);
    if (sync === undefined) throw new Error("one sync is shown as one");
    return sync;
  }

  /** Returns the syncs of one connection: the stored ones, and those that its scripts define. */
  async function ofConnection(filter: SyncFilter): Promise<StoredSync[]> {
    const { environment, integration, connectionId, names } = filter;
    const ref = create(ConnectionRefSchema, { environment, integration, id: connectionId });
    await connections.get(ref);
    const under = [environment, integration, connectionId];
    const found = (await syncs.page({ under, limit: Number.MAX_SAFE_INTEGER })).map(({ value }) => value);
    const isThere = (name: string, variant: string) =>
      found.some((one) => one.name === name && one.variant === variant);
    const others = named(integration, names)
      .filter(({ script, variant }) => variant === baseVariant && !isThere(script.name, variant))
      .map(({ script }) =>
        newSync({ ref, name: script.name, variant: baseVariant, autoStart: script.autoStart, nowMs: world.now() }),
      );
    return [...found.filter((one) => isNamed(one, names)), ...others].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  return {
    named,
    async list(filter, page) {
      const { environment, integration, connectionId, names } = filter;
      if (namesNothing(environment, integration, connectionId)) return { items: [], next: "" };
      if (connectionId !== "") return { items: await shown(await ofConnection(filter)), next: "" };
      await integrations.get({ environment, key: integration });
      named(integration, names);
      const { items, next } = await listPage<StoredSync>({
        question: ["syncs", filter],
        page,
        read: (request) => syncs.page({ under: [environment, integration], ...request }),
      });
      return { items: await shown(items.filter((one) => isNamed(one, names))), next };
    },
    async trigger(wanted, actor) {
      const { environment, integration, connectionId, names } = wanted;
      await integrations.get({ environment, key: integration });
      const all = named(integration, names);
      const ids: string[] = [];
      for await (const refs of connectionsOf(wanted)) {
        const { result } = await transact(store, async () => {
          const made = await Promise.all(
            refs.flatMap((ref) =>
              all.map(({ script, variant }) => triggering({ ref, name: script.name, variant }, script, wanted)),
            ),
          );
          return {
            changes: made.flatMap(({ changes }) => changes),
            conditions: made.flatMap(({ conditions }) => conditions),
            result: made.flatMap(({ id }) => id ?? []),
          };
        });
        ids.push(...result);
      }
      const at = connectionId === "" ? integration : `${integration}/${connectionId}`;
      const targets = all.map(({ script }) => `${at}/${script.name}`);
      if (ids.length > 0) await store.commit(audit.changes({ actor, action: "sync.trigger", environment, targets }));
      return ids;
    },
    start: (at, actor) =>
      change(at, { action: "sync.start", actor }, (sync) => ({
        ...sync,
        paused: false,
        // A sync that became due while paused is due now.
        dueMs: sync.dueMs === 0 ? world.now() : Math.max(sync.dueMs, world.now()),
      })),
    pause: (at, actor) => change(at, { action: "sync.pause", actor }, (sync) => ({ ...sync, paused: true })),
    async setFrequency({ frequency, ...at }, actor) {
      const own = frequency === "" ? undefined : parseFrequency(frequency);
      if (own?.ok === false) {
        const mistakes = [{ path: ["frequency"], message: own.problem }];
        throw new Fault("invalid_body", "the frequency is not valid", { mistakes });
      }
      return change(at, { action: "sync.frequency", actor }, (sync, script) => {
        const parsed = own ?? parseFrequency(script.frequency);
        const soonestMs = world.now() + (parsed.ok ? parsed.everyMs : 0);
        return { ...sync, frequency, ...(sync.dueMs > 0 && { dueMs: Math.min(sync.dueMs, soonestMs) }) };
      });
    },
    async addVariant(place, actor) {
      const { ref, name, variant } = place;
      const script = scriptOf(ref.integration, name);
      if (variant === baseVariant || !namePattern.test(variant)) {
        throw new Fault("invalid_path", "a variant is named by letters, digits and _ . -, and not `base`");
      }
      const { result, revision } = await transact(store, async () => {
        const connection = await connections.get(ref);
        if ((await before(place)) !== undefined) {
          throw new Fault("already_exists", `the sync "${name}" has the variant "${variant}" already`);
        }
        const after = newSync({ ...place, autoStart: script.autoStart, nowMs: world.now() });
        const targets = [`${targetOf(ref)}/${name}::${variant}`];
        return {
          changes: [
            ...syncs.change({ before: undefined, after }),
            ...audit.changes({ actor, action: "sync.variant", environment: ref.environment, targets }),
          ],
          conditions: [collections.connections.unchanged(connection)],
          result: after,
        };
      });
      const [sync] = await shown([{ ...result, revision: BigInt(revision) }]);
      if (sync === undefined) throw new Error("one sync is shown as one");
      return sync;
    },
    async removeVariant(place, actor) {
      const { ref, name, variant } = place;
      if (variant === baseVariant) throw new Fault("invalid_path", "the base of a sync is not deleted: pause it");
      await transact(store, async () => {
        await connections.get(ref);
        const found = await before(place);
        if (found === undefined) throw noVariant(place);
        const targets = [`${targetOf(ref)}/${name}::${variant}`];
        return {
          changes: [
            ...syncs.change({ before: found, after: undefined }),
            ...audit.changes({ actor, action: "sync.variant_delete", environment: ref.environment, targets }),
          ],
          result: undefined,
        };
      });
    },
    async addedFor(ref, nowMs) {
      const automatic = scriptsOf(ref.integration).filter(({ autoStart }) => autoStart);
      const places = automatic.map(({ name }) => ({ ref, name, variant: baseVariant }));
      const found = await Promise.all(places.map(before));
      return places.flatMap((place, i) =>
        // Reset a sync that is left over from an earlier connection with the same id.
        syncs.change({ before: found[i], after: newSync({ ...place, autoStart: true, nowMs }) }),
      );
    },
    async removedFor({ environment, integration, id }) {
      const found = await syncs.page({ under: [environment, integration, id], limit: Number.MAX_SAFE_INTEGER });
      const live = await Promise.all(
        found.flatMap(({ value: { queuedId, runningId } }) =>
          [queuedId, runningId].map((runId) => runs.stored({ environment, id: runId })),
        ),
      );
      return [
        ...found.flatMap((one) => syncs.change({ before: one, after: undefined })),
        // The process that runs it sees the mark, and the run can write nothing more.
        ...live.flatMap((one) =>
          one === undefined || !isLive(one.value)
            ? []
            : collections.runs.change({ before: one, after: { ...one.value, cancelling: true } }),
        ),
      ];
    },
  };
}

const noVariant = ({ name, variant }: SyncPlace) =>
  new Fault("unknown_sync", `the sync "${name}" has no variant "${variant}" for this connection`);

const isNamed = ({ name, variant }: StoredSync, names: readonly string[]): boolean =>
  names.length === 0 || names.includes(`${name}::${variant}`) || (variant === baseVariant && names.includes(name));

function stateOf({ runningId, paused, failed }: StoredSync): Sync_State {
  if (runningId !== "") return Sync_State.RUNNING;
  if (paused) return Sync_State.PAUSED;
  return failed ? Sync_State.FAILED : Sync_State.SCHEDULED;
}
