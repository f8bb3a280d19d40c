import { type ScriptHost, type ScriptLimits, usualScriptLimits } from "../../core/scripts/script.ts";
import { createLeases } from "../../store/leases.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { CredentialsRoom } from "../credentials/open.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { Quotas } from "../quotas/quotas.ts";
import type { RecordCollections } from "../records/record-collections.ts";
import { createSyncRecords, type SyncRecords } from "../records/sync-records.ts";
import { type Actions, createActions } from "./actions.ts";
import { createLiveRuns } from "./runs/live-runs.ts";
import { createRunExecution } from "./runs/run-execution.ts";
import { createRunNow, type RunNow } from "./runs/run-now.ts";
import { openRunScheduler, type RunScheduler, usualRunLimits } from "./runs/run-scheduler.ts";
import type { RunLimits } from "./runs/running-runs.ts";
import { createRuns, type Runs } from "./runs/runs.ts";
import { createWatchRun, type RunWatch } from "./runs/watch-run.ts";
import { createScriptHooks, type ScriptHooks } from "./script-hooks.ts";
import { createScriptVariables, type ScriptVariables } from "./script-variables.ts";
import type { SyncCollections } from "./sync-collections.ts";
import { createSyncs, type Syncs } from "./syncs.ts";
import { createScriptAdmission, type ScriptAdmissionSources } from "./toolbox/script-admission.ts";
import { createScriptLocks } from "./toolbox/script-locks.ts";
import { createScriptRequests } from "./toolbox/script-requests.ts";
import { createScriptToolbox } from "./toolbox/script-tools.ts";

/** Runs the customer's scripts, immediately or queued, and provides their tools and saved records. */
export interface SyncRoom {
  /** Records that syncs save. */
  readonly records: SyncRecords;
  readonly runs: Runs;
  readonly watchRun: RunWatch;
  readonly syncs: Syncs;
  readonly variables: ScriptVariables;
  readonly runNow: RunNow;
  readonly hooks: ScriptHooks;
  readonly actions: Actions;
  readonly scheduler: RunScheduler;
}

interface SyncRoomOptions extends ScriptAdmissionSources {
  readonly shared: SharedServices;
  readonly collections: ConnectionCollections & RecordCollections & SyncCollections;
  readonly connections: Connections;
  readonly credentials: CredentialsRoom;
  readonly quotas: Quotas;
  readonly scripts: ScriptHost;
  readonly limits: ScriptsLimits | undefined;
}

/** Limits of concurrent runs, and of each run. */
export interface ScriptsLimits extends RunLimits {
  readonly limits: ScriptLimits;
}

export async function openSyncs(options: SyncRoomOptions): Promise<SyncRoom> {
  const { shared, collections, connections, credentials, scripts } = options;
  const {
    store,
    webhookUrls: urls,
    integrations,
    providers,
    destinations,
    bodies,
    events,
    logs,
    audit,
    world,
  } = shared;
  const { live, askWith } = credentials;
  const { limits, ...atOnce } = options.limits ?? { ...usualRunLimits, limits: usualScriptLimits };
  const records = createSyncRecords({ store, collections, connections, world });
  const runs = createRuns({ store, collections, destinations, audit });
  const syncs = createSyncs({
    store,
    collections,
    scripts,
    runs,
    connections,
    integrations,
    destinations,
    records,
    audit,
    world,
  });
  const variables = createScriptVariables();
  const toolbox = createScriptToolbox({
    connections,
    integrations,
    syncs,
    urls,
    world,
    send: createScriptRequests({ live, askWith, quotas: options.quotas, admit: createScriptAdmission(options), world }),
    runAction: (action, signal) => actions.run(action, { signal, isNested: true }),
    variablesOf: variables.of,
    openLocks: createScriptLocks({ leases: createLeases(store), world }),
  });
  const runNow = createRunNow({ store, scripts, runs, toolbox, destinations, logs, limits, world });
  const hooks = createScriptHooks({ scripts, runs, runNow, live, connections, destinations, world });
  const actions: Actions = createActions({ store, scripts, runs, runNow, live, connections, destinations, world });
  const liveRuns = createLiveRuns();
  const watchRun = createWatchRun({ store, collections, runs, logs, liveRuns, world });
  const execution = createRunExecution({
    store,
    collections,
    scripts,
    runs,
    toolbox,
    records,
    live,
    providers,
    payloadOf: bodies.payloadOf,
    events,
    logs,
    liveRuns,
    limits,
    world,
  });
  const scheduler = await openRunScheduler({
    store,
    collections,
    scripts,
    runs,
    execution,
    destinations,
    limits: atOnce,
    partitions: shared.partitions,
    world,
  });
  return { records, runs, watchRun, syncs, variables, runNow, hooks, actions, scheduler };
}
