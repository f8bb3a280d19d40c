import type { JsonValue } from "@bufbuild/protobuf";
import { type ScriptOutcome, ToolFailure } from "../../../core/scripts/script.ts";
import { baseVariant } from "../../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { TriggerSyncRequest_Mode as Mode } from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Syncs } from "../syncs.ts";
import { type NamedTools, scriptActor } from "./tool.ts";
import { invalidArgument, isObject, textArgument } from "./tool-arguments.ts";

export interface TriggerToolsOptions {
  readonly syncs: Pick<Syncs, "trigger" | "start">;
  readonly runAction: (
    action: { readonly ref: ConnectionRef; readonly name: string; readonly input: JsonValue | undefined },
    signal: AbortSignal,
  ) => Promise<{ readonly outcome: ScriptOutcome }>;
}

/** Tools that run other scripts of the same integration. */
export function createTriggerTools({ syncs, runAction }: TriggerToolsOptions): NamedTools {
  return {
    async triggerAction({ ref, isDryRun, isNested, log, signal }, [integration, connectionId, action, input]) {
      requireOwn(ref, integration);
      const name = textArgument(action, "action");
      const id = textArgument(connectionId, "connectionId");
      if (isDryRun) {
        log.info("an action would be triggered", { script: name });
        return null;
      }
      // Each nested action would wait for a slot while its caller keeps its own.
      if (isNested === true)
        throw new ToolFailure("too_deep", "an action that a script triggered cannot trigger another action");
      const { outcome } = await runAction({ ref: { ...ref, id }, name, input }, signal);
      if (outcome.kind === "done") return outcome.output ?? null;
      const { code, message, payload } = outcome.failure;
      throw new ToolFailure(code, message, { details: payload === undefined ? {} : { payload } });
    },
    async startSync({ ref, isDryRun, log }, [integration, names, connectionId]) {
      requireOwn(ref, integration);
      for (const given of Array.isArray(names) ? names : [names]) {
        const [name = "", variant = baseVariant] = syncName(given).split("::");
        if (isDryRun) log.info("a sync would be started", { script: name });
        else {
          const id = textArgument(connectionId, "connectionId");
          await syncs.start({ ref: { ...ref, id }, name, variant, expectedRevision: 0n }, scriptActor);
        }
      }
      return undefined;
    },
    async triggerSync({ ref, isDryRun, log }, [integration, connectionId, sync, mode]) {
      requireOwn(ref, integration);
      const name = syncName(sync);
      if (isDryRun) {
        log.info("a sync would be triggered", { script: name });
        return undefined;
      }
      const trigger = {
        environment: ref.environment,
        integration: ref.integration,
        connectionId: textArgument(connectionId, "connectionId"),
        names: [name],
        mode: modeOf(mode),
      };
      await syncs.trigger(trigger, scriptActor);
      return undefined;
    },
  };
}

function requireOwn(ref: ConnectionRef, integration: JsonValue | undefined): void {
  if (textArgument(integration, "providerConfigKey") !== ref.integration) {
    throw invalidArgument("`providerConfigKey` must be the script's own integration");
  }
}

/** Parses `name`, or `name::variant`. */
function syncName(given: JsonValue | undefined): string {
  if (!isObject(given)) return textArgument(given, "sync");
  const { name, variant } = given;
  return typeof variant === "string" ? `${textArgument(name, "name")}::${variant}` : textArgument(name, "name");
}

function modeOf(mode: JsonValue | undefined): Mode {
  if (isObject(mode)) {
    return mode["emptyCache"] === true ? Mode.FULL_REFRESH_AND_CLEAR_CACHE : modeOf(mode["reset"] === true);
  }
  if (mode === false) return Mode.INCREMENTAL;
  if (mode === undefined || mode === null || mode === "incremental") return Mode.INCREMENTAL;
  if (mode === "full_refresh" || mode === true) return Mode.FULL_REFRESH;
  if (mode === "full_refresh_and_clear_cache") return Mode.FULL_REFRESH_AND_CLEAR_CACHE;
  throw invalidArgument("`syncMode` must be incremental, full_refresh or full_refresh_and_clear_cache");
}
