import { create, toJson } from "@bufbuild/protobuf";
import { timestampDate, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { faultOfAction } from "../../broker/syncs/actions.ts";
import type { DryRunReport } from "../../broker/syncs/runs/dry-run.ts";
import { withFailure, withOutput } from "../../broker/syncs/runs/runs.ts";
import type { BrokenScript, Script, ScriptKind } from "../../core/scripts/script.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";
import { type ConnectionRef, ConnectionRefSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import { ProblemSchema, ViolationSchema } from "../../gen/latchkey/v1/problem_pb.ts";
import { Script_Kind, ScriptSchema, type SyncRef, type SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";

type SyncMethods = ServiceImpl<typeof SyncService>;

const kinds: Readonly<Record<ScriptKind, Script_Kind>> = {
  sync: Script_Kind.SYNC,
  action: Script_Kind.ACTION,
  event: Script_Kind.EVENT,
};
const testDeadlineMs = 120_000;

export const syncService = (broker: Broker): Omit<SyncMethods, "listRecords" | "pruneRecords"> => {
  const { scripts, syncs, runs, actions, runNow, connections, live, environments } = broker;

  async function refIn(connection: ConnectionRef | undefined, context: HandlerContext): Promise<ConnectionRef> {
    if (connection === undefined) throw new Error("a validated request names its connection");
    const environment = await environments.of(callerOf(context), connection.environment);
    return create(ConnectionRefSchema, { ...connection, environment });
  }

  async function placeIn(ref: SyncRef | undefined, context: HandlerContext) {
    if (ref === undefined) throw new Error("a validated request names its sync");
    return { ref: await refIn(ref.connection, context), name: ref.name, variant: ref.variant || baseVariant };
  }

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
    throw new Fault("invalid_body", "several scripts have that name", {
      mistakes: [{ path: ["kind"], message: "must say which is meant" }],
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
          .map((broken) =>
            create(ScriptSchema, {
              integration: broken.integration,
              name: broken.name,
              kind: kinds[broken.kind],
              problem: problem(broken),
            }),
          ),
      ];
      const order = (a: { integration: string; kind: number; name: string }) =>
        [a.integration, a.kind, a.name].join("\0");
      return {
        scripts: shown
          .filter((one) => integration === "" || one.integration === integration)
          .toSorted((a, b) => (order(a) < order(b) ? -1 : 1)),
      };
    },
    async listSyncs({ environment: asked, integration, connectionId, names, ...request }, context) {
      const environment = await environments.of(callerOf(context), asked);
      const filter = { environment, integration, connectionId, names };
      const { items, next } = await syncs.list(filter, pageOf(request));
      return { syncs: [...items], nextPageToken: next };
    },
    async triggerSync({ environment: asked, integration, connectionId, names, mode }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, asked);
      const runIds = await syncs.trigger({ environment, integration, connectionId, names, mode }, caller.keyId);
      return { runIds: [...runIds] };
    },
    async startSync({ ref, expectedRevision }, context) {
      const place = await placeIn(ref, context);
      return { sync: await syncs.start({ ...place, expectedRevision }, callerOf(context).keyId) };
    },
    async pauseSync({ ref, expectedRevision }, context) {
      const place = await placeIn(ref, context);
      return { sync: await syncs.pause({ ...place, expectedRevision }, callerOf(context).keyId) };
    },
    async setSyncFrequency({ ref, frequency, expectedRevision }, context) {
      const place = await placeIn(ref, context);
      return { sync: await syncs.setFrequency({ ...place, frequency, expectedRevision }, callerOf(context).keyId) };
    },
    async listRuns({ environment: asked, integration, connectionId, script, states, ...request }, context) {
      if (connectionId !== "" && integration === "") {
        const message = "must be given with connection_id, which names a connection of one integration";
        throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
      }
      const environment = await environments.of(callerOf(context), asked);
      const filter = { environment, integration, connectionId, script, states };
      const { items, next } = await runs.list(filter, pageOf(request));
      return { runs: [...items], nextPageToken: next };
    },
    async getRun({ environment: asked, id }, context) {
      return { run: await runs.get({ environment: await environments.of(callerOf(context), asked), id }) };
    },
    async cancelRun({ environment: asked, id }, context) {
      const caller = callerOf(context);
      return { run: await runs.cancel({ environment: await environments.of(caller, asked), id }, caller.keyId) };
    },
    async runAction({ connection, name, input: given, async: isAsync }, context) {
      const ref = await refIn(connection, context);
      const input = given === undefined ? undefined : toJson(ValueSchema, given);
      if (isAsync) return { run: await actions.begin({ ref, name, input }) };
      const { run, outcome } = await actions.run({ ref, name, input }, { signal: context.signal });
      if (outcome.kind === "failed") throw faultOfAction(outcome.failure, run.id);
      return { run: withOutput(run, outcome.output) };
    },
    async testScript({ connection, name, kind, input: given, onWebhook }, context) {
      const ref = await refIn(connection, context);
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

function scriptOf(script: Script) {
  const { integration, name, kind, version, description } = script;
  return create(ScriptSchema, {
    ...{ integration, name, kind: kinds[kind], version, description },
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
    message: `${file} is not used as it stands`,
    violations: mistakes.map(({ file: at, line, column, message }) =>
      create(ViolationSchema, { path: [at, line, column].filter((part) => part !== undefined).join(":"), message }),
    ),
  });
