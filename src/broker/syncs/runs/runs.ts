import { create, fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { depthOf } from "../../../core/connection-rules.ts";
import { scriptErrorMessage } from "../../../core/scripts/script-error-message.ts";
import { type StoredFailure, scriptErrorOf, storedFailureOf } from "../../../core/scripts/script-failure.ts";
import { isLive, runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Run, Run_State, RunSchema, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../../store/contract.ts";
import { type PageRequest, type StoredRecordOf, transact } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import { targetOf } from "../../connections/connection-collections.ts";
import type { Destinations } from "../../deliveries/destinations.ts";
import { namesNothing } from "../../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../../stored/paging.ts";
import { runInputKey, runOutputKey, type SyncCollections } from "../sync-collections.ts";

/** Runs of scripts: queued and running ones, and the results of the others. */
export interface Runs {
  /** Returns a run with its output. */
  get(at: RunAt): Promise<Run>;
  /** Lists runs, newest first, without their outputs. */
  list(filter: RunFilter, page: PageOptions): Promise<PageOf<Run>>;
  /** Cancels a run. A queued run does not start; a running one ends soon, and can write nothing from now on. */
  cancel(at: RunAt, actor: string): Promise<Run>;
  /** Returns the changes that queue a run, for the commit of its cause. */
  added(run: StoredRun, input?: JsonValue): Change[];
  /** Returns the run as it is stored, and the changes that store its result, for the commit of its end. */
  withResult(run: StoredRun, result: RunResult): { readonly run: StoredRun; readonly changes: Change[] };
  inputOf(run: StoredRun): Promise<JsonValue | undefined>;
  /** Returns the output of a run, unchanged. */
  outputOf(at: RunAt): Promise<JsonValue | undefined>;
  /** Returns why a run did not succeed. */
  failureOf(
    run: Run,
    environment: string,
  ): Promise<StoredFailure & { readonly code: string; readonly message: string }>;
  stored(at: RunAt): Promise<StoredRecordOf<StoredRun> | undefined>;
}

/** The output of an action, or the failure of a script. */
export interface RunResult {
  readonly output?: JsonValue | undefined;
  readonly failure?: StoredFailure | undefined;
}

export interface RunAt {
  readonly environment: string;
  readonly id: string;
}

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
  readonly world: World;
}

export function createRuns({ store, collections, destinations, audit }: RunsOptions): Runs {
  const { runs } = collections;

  const isOfNow = (stored: StoredRun): boolean => {
    const { environment = "" } = runOf(stored).connection ?? {};
    return destinations.isCurrent({ environment, environmentId: stored.environmentId });
  };

  async function find({ environment, id }: RunAt): Promise<StoredRecordOf<StoredRun>> {
    const found = namesNothing(environment, id) ? undefined : await runs.get(environment, id);
    if (found !== undefined && isOfNow(found.value)) return found;
    throw new Fault("not_found", `there is no run "${id}", or not any more`);
  }

  /** Returns the changes that make a sync stop waiting for a cancelled run. */
  async function letGo(over: StoredRun): Promise<Change[]> {
    const { id, kind, script, connection, state } = runOf(over);
    if (state !== Run_State.CANCELLED || kind !== Script_Kind.SYNC || connection === undefined) return [];
    const { environment, integration, id: connectionId } = connection;
    const before = await collections.syncs.get(environment, integration, connectionId, script, over.variant);
    if (before?.value.queuedId !== id) return [];
    return collections.syncs.change({ before, after: { ...before.value, queuedId: "" } });
  }

  async function jsonAt(key: string): Promise<JsonValue | undefined> {
    const entry = await store.get(key);
    // The stored text was written by `JSON.stringify`.
    return entry === undefined ? undefined : (JSON.parse(Buffer.from(entry.value).toString()) as JsonValue);
  }

  /** Reads the failure of a run. A run of an earlier version has only the payload. */
  async function storedFailure(
    { hasFailure, hasOutput }: StoredRun,
    { environment, id }: RunAt,
  ): Promise<StoredFailure> {
    const kept = hasOutput ? await jsonAt(runOutputKey(environment, id)) : undefined;
    if (kept === undefined) return {};
    return hasFailure ? (kept as StoredFailure) : { payload: kept };
  }

  function sealed(key: string, value: JsonValue): Change {
    return { key, value: Buffer.from(JSON.stringify(value)), secret: true };
  }

  return {
    async get(at) {
      const { value } = await find(at);
      const run = runOf(value);
      if (value.hasFailure || run.problem !== undefined) return withFailure(run, await storedFailure(value, at));
      return withOutput(run, value.hasOutput ? await jsonAt(runOutputKey(at.environment, at.id)) : undefined);
    },
    async list(filter, page) {
      const { environment, integration, connectionId, script, states } = filter;
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
        isWanted: (stored) => {
          const run = runOf(stored);
          return (
            isOfNow(stored) &&
            (integration === "" || run.connection?.integration === integration) &&
            (connectionId === "" || run.connection?.id === connectionId) &&
            (script === "" || run.script === script) &&
            (states.length === 0 || states.includes(run.state))
          );
        },
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
            ...(await letGo(after)),
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
    added(run, input) {
      const { id, connection } = runOf(run);
      const after = { ...run, hasInput: input !== undefined };
      return [
        ...runs.change({ before: undefined, after }),
        ...(input === undefined ? [] : [sealed(runInputKey(connection?.environment ?? "", id), input)]),
      ];
    },
    withResult(run, { output, failure }) {
      const { id, connection } = runOf(run);
      const stored = failure === undefined ? undefined : storedFailureOf(failure);
      const value = stored === undefined ? output : (stored as JsonObject);
      const isThere = value !== undefined;
      return {
        run: { ...run, hasOutput: isThere, hasFailure: stored !== undefined },
        changes: isThere ? [sealed(runOutputKey(connection?.environment ?? "", id), value)] : [],
      };
    },
    async inputOf(run) {
      const { id, connection } = runOf(run);
      return run.hasInput ? jsonAt(runInputKey(connection?.environment ?? "", id)) : undefined;
    },
    outputOf: ({ environment, id }) => jsonAt(runOutputKey(environment, id)),
    async failureOf({ id, problem }, environment) {
      const { value } = await find({ environment, id });
      const { code = "interrupted", message = "" } = problem ?? {};
      return { ...(await storedFailure(value, { environment, id })), code, message };
    },
    async stored({ environment, id }) {
      return id === "" ? undefined : runs.get(environment, id);
    },
  };
}

/** Nesting limit of protobuf readers: a deeper output is left out. */
const mostDepth = 32;

/** Returns a failed run with the error that its script threw. */
export function withFailure(run: Run, failure: StoredFailure): Run {
  const { code = "interrupted", message = "" } = run.problem ?? {};
  const error = scriptErrorMessage({ ...scriptErrorOf({ ...failure, code, message }), runId: run.id });
  return withOutput(create(RunSchema, { ...run, error }), failure.payload);
}

/** Returns a run with its output. */
export const withOutput = (run: Run, output: JsonValue | undefined): Run =>
  output === undefined || depthOf(output) > mostDepth
    ? run
    : create(RunSchema, { ...run, output: fromJson(ValueSchema, output) });
