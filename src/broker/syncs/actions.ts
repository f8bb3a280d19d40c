import type { JsonValue } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { ActionScript, ScriptFailure, ScriptHost, ScriptLine, ScriptProgress } from "../../core/scripts/script.ts";
import type { ScriptClient } from "../../core/scripts/script-client.ts";
import { scriptErrorOf } from "../../core/scripts/script-failure.ts";
import { baseVariant, newRun, runOf } from "../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Run, Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Store } from "../../store/contract.ts";
import type { Connections } from "../connections/connections.ts";
import type { Live } from "../credentials/live-connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { ImmediateRun, RunNow } from "./runs/run-now.ts";
import type { Runs } from "./runs/runs.ts";

/** Scripts that run once, on demand. */
export interface Actions {
  /** Runs an action and waits for its end. An error of the script is not thrown but is part of the outcome. */
  run(request: ActionRequest, options?: ActionOptions): Promise<ImmediateRun>;
  /** Queues a run of an action and returns the run. */
  begin(request: ActionRequest): Promise<Run>;
  /** Returns a run with its output; the output is undefined until there is one. */
  resultOf(at: { readonly environment: string; readonly id: string }): Promise<Run>;
}

interface ActionOptions {
  readonly signal?: AbortSignal | undefined;
  /** Another script waits for the action. */
  readonly isNested?: boolean;
  readonly noteProgress?: ((progress: ScriptProgress) => void) | undefined;
  readonly noteLine?: ((line: ScriptLine) => void) | undefined;
  /** Answers the script's questions; undefined: no client can. */
  readonly client?: ScriptClient | undefined;
}

export interface ActionRequest {
  readonly ref: ConnectionRef;
  readonly name: string;
  readonly input: JsonValue | undefined;
  /** Name of the caller, by `starterOf`; undefined for a script. */
  readonly starter?: string;
}

interface ActionsOptions {
  readonly store: Store;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly runNow: RunNow;
  readonly live: Live;
  readonly connections: Connections;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly world: World;
}

/** Deadline of an action: a caller waits, over a connection that other parties close after a while. */
const deadlineMs = 120_000;
/** Limits the concurrent actions in this process; each holds a request open. */
const maxAtOnce = 64;

export function createActions(options: ActionsOptions): Actions {
  const { store, scripts, runs, runNow, live, connections, destinations, world } = options;
  let running = 0;

  function scriptOf({ ref, name }: ActionRequest): ActionScript {
    const found = scripts.find({ integration: ref.integration, kind: "action", name });
    if (found?.kind === "action") return found;
    throw new Fault("unknown_action", `the integration "${ref.integration}" has no action "${name}"`, {
      missing: { kind: "action", name, integration: ref.integration },
    });
  }

  return {
    async run(request, { signal, isNested = false, noteProgress, noteLine, client } = {}) {
      const { value: connection } = await connections.get(request.ref);
      const script = scriptOf(request);
      if (running >= maxAtOnce) {
        throw new Fault("overloaded", "too many actions are running", { retryAfterSeconds: 1 });
      }
      running += 1;
      const { ref, input, starter } = request;
      const { provider } = connection;
      return runNow({
        script,
        ref,
        provider,
        starter,
        input,
        cause: "trigger",
        deadlineMs,
        row: isNested ? "nested" : "asked",
        live: () => live.get(ref),
        noteProgress,
        noteLine,
        client,
        ...(signal !== undefined && { signal }),
      }).finally(() => {
        running -= 1;
      });
    },
    async begin(request) {
      await connections.get(request.ref);
      scriptOf(request);
      const nowMs = world.now();
      const { ref, name, input, starter = "" } = request;
      const id = sequentialId(nowMs);
      const environmentId = destinations.environmentByName(ref.environment)?.id ?? "";
      const kind = Script_Kind.ACTION;
      // Each action has its own lane: actions do not wait for each other.
      const lane = ["action", ref.environment, id].join("\0");
      const place = { ref, name, variant: baseVariant };
      const run = newRun({ ...place, id, kind, cause: "trigger", lane, dueMs: nowMs, environmentId, starter });
      await store.commit(runs.added(run, input));
      return runOf(run);
    },
    resultOf: (at) => runs.get(at),
  };
}

/** Returns the error that the caller of a failed action gets. */
export function faultOfAction(failure: FailedAction, runId: string): Fault {
  const { code, message } = failure;
  if (code === "invalid_input") return new Fault("invalid_body", message);
  const script = { ...scriptErrorOf(failure), runId };
  return new Fault("script_failed", message || "the action failed", { script, metadata: { reason: code } });
}

type FailedAction = Omit<ScriptFailure, "code" | "stack"> & { readonly code: string };
