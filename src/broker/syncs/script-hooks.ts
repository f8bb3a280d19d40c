import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { EventScript, LifecycleEvent, ScriptHost } from "../../core/scripts/script.ts";
import { baseVariant, newRun } from "../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { Script_Kind } from "../../gen/latchkey/v1/sync_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { Connections } from "../connections/connections.ts";
import type { Live, LiveConnection } from "../credentials/live-connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { RunNow } from "./runs/run-now.ts";
import type { Runs } from "./runs/runs.ts";

/** The customer's scripts for events of a connection. */
export interface ScriptHooks {
  /** Returns the changes that queue the hooks, for the commit of a connection that was created or reauthorized. */
  created(ref: ConnectionRef): Change[];
  /** Whether hooks run before a connection of the integration is deleted. */
  hasDeletionHooks(integration: string): boolean;
  /**
   * Runs the hooks before a connection is deleted. The deletion continues after a limited time, whatever a hook does.
   */
  beforeDeletion(ref: ConnectionRef): Promise<void>;
  /**
   * Runs the hooks before an authorized connection is stored. Throws if a hook fails; the connection is then not
   * stored.
   */
  validate(draft: LiveConnection): Promise<void>;
}

interface HooksOptions {
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly runNow: RunNow;
  readonly live: Live;
  readonly connections: Pick<Connections, "get">;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly world: World;
}

/** Limits the total time of the hooks that run before a deletion, one after another. */
const deletionMs = 10_000;
/** Limits the time of a validation hook, because an end user waits. */
const validationMs = 10_000;

export function createScriptHooks(options: HooksOptions): ScriptHooks {
  const { scripts, runs, runNow, live, connections, destinations, world } = options;

  const hooksOf = (integration: string, event: LifecycleEvent): EventScript[] =>
    scripts
      .all()
      .filter(
        (script): script is EventScript =>
          script.kind === "event" && script.integration === integration && script.event === event,
      );

  return {
    created(ref) {
      const event = "post-connection-creation";
      return hooksOf(ref.integration, event).flatMap((script) => {
        const nowMs = world.now();
        const environmentId = destinations.environmentByName(ref.environment)?.id ?? "";
        const lane = ["event", ref.environment, ref.integration, ref.id].join("\0");
        const run = newRun({
          id: sequentialId(nowMs),
          ref,
          name: script.name,
          variant: baseVariant,
          kind: Script_Kind.EVENT,
          cause: "event",
          lane,
          dueMs: nowMs,
          environmentId,
        });
        return runs.added({ ...run, event });
      });
    },
    hasDeletionHooks: (integration) => hooksOf(integration, "pre-connection-deletion").length > 0,
    async beforeDeletion(ref) {
      const hooks = hooksOf(ref.integration, "pre-connection-deletion");
      if (hooks.length === 0) return;
      const { value: connection } = await connections.get(ref);
      const since = performance.now();
      for (const script of hooks) {
        const leftMs = deletionMs - (performance.now() - since);
        if (leftMs <= 0) return;
        const { environment, integration, id } = ref;
        const at = { environment, integration, connection: id, script: script.name };
        try {
          const { outcome } = await runNow({
            script,
            ref,
            provider: connection.provider,
            cause: "event",
            deadlineMs: leftMs,
            row: "hook",
            live: () => live.get(ref),
          });
          if (outcome.kind === "done") continue;
          world.log.warn("a deletion hook failed; deleting the connection anyway", {
            ...at,
            reason: outcome.failure.code,
          });
        } catch (err) {
          // An error in running or storing the hook does not stop the deletion.
          world.log.warn("a deletion hook could not be run; deleting the connection anyway", { ...at, err });
        }
      }
    },
    async validate(draft) {
      const { ref, provider } = draft.connection;
      if (ref === undefined) throw new Error("a draft has a ref");
      for (const script of hooksOf(ref.integration, "validate-connection")) {
        const { outcome } = await runNow({
          script,
          ref,
          provider,
          cause: "event",
          deadlineMs: validationMs,
          row: "hook",
          isDraft: true,
          live: async () => draft,
        });
        if (outcome.kind === "failed") throw new Fault("connection_test_failed", outcome.failure.message);
      }
    },
  };
}
