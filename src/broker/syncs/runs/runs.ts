import { create, type JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import type { StoredFailure } from "../../../core/scripts/script-failure.ts";
import { isLive, runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Run, Run_State, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../../store/contract.ts";
import { type PageRequest, type StoredRecordOf, transact } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import { targetOf } from "../../connections/connection-collections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import { namesNothing } from "../../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../../stored/paging.ts";
import type { SyncCollections } from "../sync-collections.ts";
import { createRunResults, type RunAt, type RunResults } from "./run-results.ts";

/** Runs of scripts: queued and running ones, and the results of the others. */
export interface Runs extends Pick<RunResults, "inputOf" | "outputOf" | "withResult"> {
  /** Returns a run with its output; for a starter, only if that one began it. */
  get(at: RunAt, starter?: string): Promise<Run>;
  /** Lists runs, newest first, without their outputs. */
  list(filter: RunFilter, page: PageOptions): Promise<PageOf<Run>>;
  /** Cancels a run. A queued run does not start; a running one ends soon, and can write nothing from now on. */
  cancel(at: RunAt, actor: string): Promise<Run>;
  /** Returns the changes that queue a run, for the commit of its cause. */
  added(run: StoredRun, input?: JsonValue): Change[];
  /** Returns why a run did not succeed. */
  failureOf(run: Run, environment: string): Promise<RunFailure>;
  stored(at: RunAt): Promise<StoredRecordOf<StoredRun> | undefined>;
}

export type RunFailure = StoredFailure & { readonly code: string; readonly message: string };

export interface RunFilter {
  readonly environment: string;
  /** Empty for any. */
  readonly integration: string;
  readonly connectionId: string;
  readonly script: string;
  readonly states: readonly Run_State[];
}

interface RunsOptions {
  readonly store: Store;
  readonly collections: SyncCollections;
  readonly destinations: Pick<Destinations, "isCurrent">;
  readonly audit: Audit;
}

export function createRuns({ store, collections, destinations, audit }: RunsOptions): Runs {
  const { runs } = collections;
  const results = createRunResults(store);

  /** Whether the run belongs to the current environment of its name, and not to a deleted one. */
  const isOfNow = (stored: StoredRun): boolean => {
    const { environment = "" } = runOf(stored).connection ?? {};
    return destinations.isCurrent({ environment, environmentId: stored.environmentId });
  };

  async function find({ environment, id }: RunAt, starter?: string): Promise<StoredRecordOf<StoredRun>> {
    const found = namesNothing(environment, id) ? undefined : await runs.get(environment, id);
    const isItsOwn = starter === undefined || found?.value.starter === starter;
    if (found !== undefined && isOfNow(found.value) && isItsOwn) return found;
    throw new Fault("not_found", `the run "${id}" does not exist, or was removed`);
  }

  /** Returns the changes that make a sync stop waiting for a cancelled run. */
  async function unqueueChanges(cancelled: StoredRun): Promise<Change[]> {
    const { id, kind, script, connection, state } = runOf(cancelled);
    if (state !== Run_State.CANCELLED || kind !== Script_Kind.SYNC || connection === undefined) return [];
    const { environment, integration, id: connectionId } = connection;
    const before = await collections.syncs.get(environment, integration, connectionId, script, cancelled.variant);
    if (before?.value.queuedId !== id) return [];
    return collections.syncs.change({ before, after: { ...before.value, queuedId: "" } });
  }

  return {
    get: async (at, starter) => results.show((await find(at, starter)).value),
    async list(filter, page) {
      const { environment, integration, connectionId } = filter;
      const isNone = namesNothing(environment, integration, connectionId);
      const isOfOne = integration !== "" && connectionId !== "";
      const read = (request: Pick<PageRequest, "after" | "limit">) =>
        isOfOne
          ? runs.pageBy("connection", { under: [environment, integration, connectionId], reverse: true, ...request })
          : runs.page({ under: [environment], reverse: true, ...request });
      const found = await siftedPage<StoredRun>({
        question: ["runs", filter],
        page,
        read: isNone ? () => Promise.resolve([]) : read,
        isWanted: (stored) => isOfNow(stored) && isWantedRun(runOf(stored), filter),
        isPast: () => false,
      });
      return { items: found.items.map(runOf), next: found.next };
    },
    async cancel(at, actor) {
      const { result } = await transact(store, async () => {
        const before = await find(at);
        if (!isLive(before.value)) return { changes: [], result: runOf(before.value) };
        const run = runOf(before.value);
        const state = run.state === Run_State.QUEUED ? Run_State.CANCELLED : run.state;
        const after: StoredRun = { ...before.value, cancelling: true, run: { ...run, state } };
        const ref = run.connection ?? create(ConnectionRefSchema);
        return {
          changes: [
            ...runs.change({ before, after }),
            ...(await unqueueChanges(after)),
            ...audit.changes({
              actor,
              action: "run.cancel",
              environment: at.environment,
              targets: [`${targetOf(ref)}/${run.script}`],
            }),
          ],
          result: runOf(after),
        };
      });
      return result;
    },
    added: (run, input) => [
      ...runs.change({ before: undefined, after: { ...run, hasInput: input !== undefined } }),
      ...results.inputChanges(run, input),
    ],
    withResult: results.withResult,
    inputOf: results.inputOf,
    outputOf: results.outputOf,
    async failureOf({ id, problem }, environment) {
      const { value } = await find({ environment, id });
      const { code = "interrupted", message = "" } = problem ?? {};
      return { ...(await results.failureOf(value)), code, message };
    },
    async stored({ environment, id }) {
      return id === "" ? undefined : runs.get(environment, id);
    },
  };
}

/** Whether a filter wants the run. */
export const isWantedRun = (run: Run, { integration, connectionId, script, states }: RunFilter): boolean =>
  (integration === "" || run.connection?.integration === integration) &&
  (connectionId === "" || run.connection?.id === connectionId) &&
  (script === "" || run.script === script) &&
  (states.length === 0 || states.includes(run.state));
