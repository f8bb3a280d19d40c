import { StringDecoder } from "node:string_decoder";
import { create, toJson } from "@bufbuild/protobuf";
import { timestampDate, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { DryRunReport } from "../../broker/syncs/runs/dry-run.ts";
import { withFailure, withOutput } from "../../broker/syncs/runs/run-results.ts";
import type { BrokenScript, Script, ScriptKind } from "../../core/scripts/script.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { ProblemSchema, ViolationSchema } from "../../gen/latchkey/v1/problem_pb.ts";
import { Script_Kind, ScriptSchema, type SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, connectionRefOf } from "../server/context.ts";

const kinds: Readonly<Record<ScriptKind, Script_Kind>> = {
  sync: Script_Kind.SYNC,
  action: Script_Kind.ACTION,
  event: Script_Kind.EVENT,
};
const maxSourceBytes = 256 * 1024;
const testDeadlineMs = 120_000;

/** The methods of the sync service for script files: which there are, and dry runs. */
export const scriptMethods = (
  broker: Broker,
): Pick<ServiceImpl<typeof SyncService>, "listScripts" | "getScript" | "testScript"> => {
  const { scripts, syncs, runNow, connections, live, environments } = broker;

  /** Returns the only script of that name, of any kind. */
  function scriptNamed(integration: string, name: string, kind: Script_Kind): Script {
    const found = scripts
      .all()
      .filter((script) => script.integration === integration && script.name === name)
      .filter((script) => kind === Script_Kind.UNSPECIFIED || kinds[script.kind] === kind);
    const [script, ...others] = found;
    if (script === undefined) {
      const why = scripts.broken().find((one) => one.integration === integration && one.name === name);
      const [mistake] = why?.mistakes ?? [];
      const said = mistake === undefined ? "" : `: ${mistake.file}:${mistake.line ?? 1}: ${mistake.message}`;
      throw new Fault("unknown_sync", `the integration "${integration}" has no script "${name}" that can run${said}`);
    }
    if (others.length === 0) return script;
    throw new Fault("invalid_body", "several scripts have this name", {
      mistakes: [{ path: ["kind"], message: "must be given, because several scripts have this name" }],
    });
  }

  /** Returns the default starting point of a sync run. */
  async function beginningOf(script: Script, ref: ConnectionRef) {
    if (script.kind !== "sync") return {};
    const { environment, integration, id: connectionId } = ref;
    const filter = { environment, integration, connectionId, names: [script.name] };
    const { items } = await syncs.list(filter, { size: 1, token: "" });
    const { checkpoint, lastRunAt } = items.find((one) => one.ref?.variant === baseVariant) ?? items[0] ?? {};
    const isIncremental = script.syncType === "incremental" && lastRunAt !== undefined;
    return { checkpoint, ...(isIncremental && { lastSyncDate: timestampDate(lastRunAt).toISOString() }) };
  }

  return {
    listScripts({ integration }, context) {
      callerOf(context);
      const good = scripts.all().map(scriptOf);
      const isGood = (broken: BrokenScript) => scripts.find(broken) !== undefined;
      const shown = [
        ...good.map((script) => ({ ...script, ...problemOf(scripts.broken(), script) })),
        ...scripts
          .broken()
          .filter((broken) => !isGood(broken))
          .map(brokenScriptOf),
      ];
      const order = (a: { integration: string; kind: number; name: string }) =>
        [a.integration, a.kind, a.name].join("\0");
      return {
        scripts: shown
          .filter((one) => integration === "" || one.integration === integration)
          .toSorted((a, b) => (order(a) < order(b) ? -1 : 1)),
      };
    },
    getScript({ integration, name, kind }, context) {
      callerOf(context);
      const broken = scripts
        .broken()
        .filter((one) => one.integration === integration && one.name === name)
        .find((one) => kind === Script_Kind.UNSPECIFIED || kinds[one.kind] === kind);
      // A broken script without a valid version has no source that runs.
      if (broken !== undefined && scripts.find(broken) === undefined) return { script: brokenScriptOf(broken) };
      const script = scriptNamed(integration, name, kind);
      const bytes = Buffer.from(scripts.sourceOf(script) ?? "");
      const sourceTruncated = bytes.length > maxSourceBytes;
      // A character that the cut divides is left out.
      const source = new StringDecoder("utf8").write(bytes.subarray(0, maxSourceBytes));
      return {
        script: { ...scriptOf(script), ...problemOf(scripts.broken(), scriptOf(script)) },
        source,
        sourceTruncated,
      };
    },
    async testScript({ connection, name, kind, input: given, onWebhook }, context) {
      const ref = await connectionRefOf(environments, connection, context);
      const { value } = await connections.get(ref);
      const script = scriptNamed(ref.integration, name, kind);
      const { run, outcome, lines, dryRun } = await runNow({
        script,
        ref,
        ...(await beginningOf(script, ref)),
        live: () => live.get(ref),
        provider: value.provider,
        input: given === undefined ? undefined : toJson(ValueSchema, given),
        cause: "test",
        row: "asked",
        deadlineMs: testDeadlineMs,
        signal: context.signal,
        entry: onWebhook ? "onWebhook" : "exec",
        isDryRun: true,
      });
      const shown = outcome.kind === "done" ? withOutput(run, outcome.output) : withFailure(run, outcome.failure);
      return { run: shown, lines: [...lines], ...(dryRun && reportOf(dryRun)) };
    },
  };
};

const reportOf = ({ changes, checkpoint, savedCheckpoint, isCheckpointCleared }: DryRunReport) => ({
  recordChanges: changes.map(({ count, records, ...change }) => ({
    ...change,
    count: BigInt(count),
    records: [...records],
  })),
  ...(checkpoint && { checkpoint }),
  ...(savedCheckpoint && { savedCheckpoint }),
  checkpointCleared: isCheckpointCleared,
});

const brokenScriptOf = (broken: BrokenScript) =>
  create(ScriptSchema, {
    integration: broken.integration,
    name: broken.name,
    kind: kinds[broken.kind],
    problem: problem(broken),
  });

function scriptOf(script: Script) {
  const { integration, name, kind, version, description } = script;
  return create(ScriptSchema, {
    integration,
    name,
    kind: kinds[kind],
    version,
    description,
    ...(script.kind === "sync" && {
      frequency: script.frequency,
      models: Object.keys(script.models),
      webhookSubscriptions: [...script.webhookSubscriptions],
    }),
    ...(script.kind !== "event" && { endpoints: script.endpoints.map(({ method, path }) => `${method} ${path}`) }),
  });
}

function problemOf(
  broken: readonly BrokenScript[],
  { integration, name, kind }: { readonly integration: string; readonly name: string; readonly kind: Script_Kind },
) {
  const found = broken.find((one) => one.integration === integration && one.name === name && kinds[one.kind] === kind);
  return found === undefined ? {} : { problem: problem(found) };
}

const problem = ({ file, mistakes }: BrokenScript) =>
  create(ProblemSchema, {
    code: "script_broken",
    message: `${file} has mistakes, so this version of it does not run`,
    violations: mistakes.map(({ file: at, line, column, message }) =>
      create(ViolationSchema, { path: [at, line, column].filter((part) => part !== undefined).join(":"), message }),
    ),
  });
