import { create, fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { depthOf } from "../../../core/connection-rules.ts";
import { scriptErrorMessage } from "../../../core/scripts/script-error-message.ts";
import { type StoredFailure, scriptErrorOf, storedFailureOf } from "../../../core/scripts/script-failure.ts";
import { runOf } from "../../../core/scripts/sync-state.ts";
import type { StoredRun } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Run, RunSchema } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Change, Store } from "../../../store/contract.ts";
import { runInputKey, runOutputKey } from "../sync-collections.ts";

/** The input and the result of each run, encrypted and apart from its record: lists do not read them. */
export interface RunResults {
  /** Returns the changes that store the input of a new run. */
  inputChanges(run: StoredRun, input: JsonValue | undefined): Change[];
  inputOf(run: StoredRun): Promise<JsonValue | undefined>;
  /** Returns the run as it is stored, and the changes that store its result, for the commit of its end. */
  withResult(run: StoredRun, result: RunResult): { readonly run: StoredRun; readonly changes: Change[] };
  /** Returns the output of a run, unchanged. */
  outputOf(at: RunAt): Promise<JsonValue | undefined>;
  failureOf(run: StoredRun): Promise<StoredFailure>;
  /** Returns a run with its output, or with the error that its script threw. */
  show(run: StoredRun): Promise<Run>;
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

export function createRunResults(store: Pick<Store, "get">): RunResults {
  async function jsonAt(key: string): Promise<JsonValue | undefined> {
    const entry = await store.get(key);
    // The stored text was written by `JSON.stringify`.
    return entry === undefined ? undefined : (JSON.parse(Buffer.from(entry.value).toString()) as JsonValue);
  }

  const outputOf = ({ environment, id }: RunAt) => jsonAt(runOutputKey(environment, id));

  /** Reads the failure of a run. A run of an earlier version has only the payload. */
  async function failureOf(run: StoredRun): Promise<StoredFailure> {
    const found = run.hasOutput ? await outputOf(runAt(run)) : undefined;
    if (found === undefined) return {};
    return run.hasFailure ? (found as StoredFailure) : { payload: found };
  }

  return {
    inputChanges(run, input) {
      const { environment, id } = runAt(run);
      return input === undefined ? [] : [encrypted(runInputKey(environment, id), input)];
    },
    async inputOf(run) {
      const { environment, id } = runAt(run);
      return run.hasInput ? jsonAt(runInputKey(environment, id)) : undefined;
    },
    withResult(run, { output, failure }) {
      const { environment, id } = runAt(run);
      const stored = failure === undefined ? undefined : storedFailureOf(failure);
      const value = stored === undefined ? output : (stored as JsonObject);
      const hasOutput = value !== undefined;
      return {
        run: { ...run, hasOutput, hasFailure: stored !== undefined },
        changes: hasOutput ? [encrypted(runOutputKey(environment, id), value)] : [],
      };
    },
    outputOf,
    failureOf,
    async show(stored) {
      const run = runOf(stored);
      if (stored.hasFailure || run.problem !== undefined) return withFailure(run, await failureOf(stored));
      return withOutput(run, stored.hasOutput ? await outputOf(runAt(stored)) : undefined);
    },
  };
}

function runAt(stored: StoredRun): RunAt {
  const { id, connection } = runOf(stored);
  return { environment: connection?.environment ?? "", id };
}

const encrypted = (key: string, value: JsonValue): Change => ({
  key,
  value: Buffer.from(JSON.stringify(value)),
  secret: true,
});

/** Nesting limit of protobuf readers: a deeper output is left out. */
const maxDepth = 32;

/** Returns a failed run with the error that its script threw. */
export function withFailure(run: Run, failure: StoredFailure): Run {
  const { code = "interrupted", message = "" } = run.problem ?? {};
  const error = scriptErrorMessage({ ...scriptErrorOf({ ...failure, code, message }), runId: run.id });
  return withOutput(create(RunSchema, { ...run, error }), failure.payload);
}

/** Returns a run with its output. */
export const withOutput = (run: Run, output: JsonValue | undefined): Run =>
  output === undefined || depthOf(output) > maxDepth
    ? run
    : create(RunSchema, { ...run, output: fromJson(ValueSchema, output) });
