import { type Command, InvalidArgumentError, Option } from "commander";
import { parseFrequency } from "../../../core/scripts/frequency.ts";
import {
  TriggerSyncRequest_Mode as Mode,
  type Run,
  Run_State,
  RunSchema,
  type Sync,
  Sync_State,
  SyncSchema,
  SyncService,
  TriggerSyncResponseSchema,
} from "../../../gen/latchkey/v1/sync_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatDuration, formatNumber, formatTime } from "../../terminal/format.ts";
import type { Tone } from "../../terminal/paint.ts";
import { listCommand, type RevisionOption, withExpectedRevision } from "../command-kinds.ts";
import { type ConnectionName, connectionName, nameOf, placeName, refOf } from "../connections/names.ts";
import { countsText, runStateText, runStateTone } from "./run-states.ts";
import { runOver, tellRun } from "./run-waiting.ts";
import { addRecords } from "./sync-records.ts";
import { addRuns } from "./sync-runs.ts";

const baseVariant = "base";

export const modes = {
  incremental: Mode.INCREMENTAL,
  "full-refresh": Mode.FULL_REFRESH,
  "full-refresh-and-clear-cache": Mode.FULL_REFRESH_AND_CLEAR_CACHE,
} as const;

/** A sync as a person names it: `events`, `events::bulk`. */
interface SyncName {
  readonly name: string;
  readonly variant: string;
}

interface TriggerOptions {
  readonly mode: keyof typeof modes;
  readonly wait?: true;
}

/** Adds the `syncs` commands. */
export function addSyncs(program: Command, act: Act): void {
  const group = program.command("syncs").summary("manage syncs: scheduled scripts that save records");
  addList(group, act);
  addShow(group, act);
  addTrigger(group, act);
  for (const verb of ["start", "pause"] as const) addSwitch(group, act, verb);
  addFrequency(group, act);
  addRuns(group, act);
  addRecords(group, act);
}

function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list syncs with their state and number of records")
    .argument("<integration[/connection]>", "for example calendar or calendar/ada", placeName);
  listCommand(list, act, {
    schema: SyncSchema,
    none: "no syncs",
    defaultLimit: 100,
    rpc: ({ client, environment }, page, { integration, id: connectionId }: ConnectionName) =>
      client(SyncService).listSyncs({ environment, integration, connectionId, ...page }),
    items: ({ syncs }) => syncs,
    columns: [
      { title: "CONNECTION", text: ({ ref }) => nameOf(ref?.connection) },
      { title: "SYNC", text: syncText },
      { title: "STATE", text: stateText, tone: stateTone },
      { title: "FREQUENCY", text: ({ frequency }) => frequency },
      { title: "NEXT RUN", time: ({ nextRunAt }) => nextRunAt },
      { title: "LAST RUN", time: ({ lastRunAt }) => lastRunAt },
      { title: "RECORDS", text: recordsText },
    ],
  });
}

function addShow(group: Command, act: Act): void {
  named(group.command("get").alias("show"))
    .summary("show a sync with its state, checkpoint and latest run")
    .action(
      act(async (session, target: ConnectionName, sync: SyncName) => {
        const { client, output, environment } = session;
        const request = { environment, integration: target.integration, connectionId: target.id };
        const { syncs } = await client(SyncService).listSyncs({ ...request, names: [fullName(sync)] });
        const found = syncs.find(({ ref }) => ref?.name === sync.name && variantOf(ref) === variantOf(sync));
        if (found === undefined) throw new Error(`${target.integration}/${target.id} has no sync ${fullName(sync)}`);
        await output.one(SyncSchema, found);
      }),
    );
}

function addTrigger(group: Command, act: Act): void {
  group
    .command("trigger")
    .argument("<integration[/connection]>", "for example calendar or calendar/ada", placeName)
    .argument("[syncs...]", "names of syncs, as name or name::variant (default: all)")
    .addOption(
      new Option("--mode <mode>", "continue from the checkpoint, start over, or delete all records and start over")
        .choices(Object.keys(modes))
        .default("incremental"),
    )
    .option("--wait", "wait for the runs to end; exit code 1 if all failed, 3 if some did")
    .summary("run syncs now")
    .action(
      act(async (session, target: ConnectionName, names: string[], { mode, wait }: TriggerOptions) => {
        const { output } = session;
        const answer = await trigger(session, target, { names, mode });
        if (wait === true) return waitFor(session, answer.runIds);
        const ids = answer.runIds.join(", ");
        const sentence = ids === "" ? "nothing to run: no connection or no sync matches" : `queued: ${ids}`;
        await output.done(TriggerSyncResponseSchema, answer, sentence);
        if (!output.json && ids !== "") await output.note("Use `syncs run ID` to see the result.");
        return exitCodes.ok;
      }),
    );
}

/** Requests runs, and returns their IDs. */
export const trigger = (
  { client, environment }: CommandSession,
  target: ConnectionName,
  { names, mode }: { readonly names: readonly string[]; readonly mode: keyof typeof modes },
) =>
  client(SyncService).triggerSync({
    environment,
    integration: target.integration,
    connectionId: target.id,
    names: [...names],
    mode: modes[mode],
  });

/** Waits until all runs are over. Shows a single run in full, and several as one line each. */
async function waitFor(session: CommandSession, ids: readonly string[]): Promise<number> {
  const [only] = ids;
  if (ids.length === 1 && only !== undefined) return tellRun(session, await runOver(session, only));
  const ended: Run[] = [];
  async function* eachOver(): AsyncGenerator<readonly Run[]> {
    for (const id of ids) {
      const run = await runOver(session, id);
      ended.push(run);
      yield [run];
    }
  }
  await session.output.many({
    schema: RunSchema,
    none: "nothing to run: no connection or no sync matches",
    pages: eachOver(),
    columns: [
      { title: "RUN", text: ({ id }) => id },
      { title: "SYNC", text: ({ script }) => script },
      { title: "CONNECTION", text: ({ connection }) => nameOf(connection) },
      { title: "STATE", text: runStateText, tone: runStateTone },
      { title: "TOOK", text: ({ duration }) => formatDuration(duration) },
      { title: "RECORDS", text: countsText },
    ],
  });
  const good = ended.filter(({ state }) => state === Run_State.SUCCEEDED).length;
  if (good === ended.length) return exitCodes.ok;
  return good === 0 ? exitCodes.failed : exitCodes.partial;
}

function addSwitch(group: Command, act: Act, verb: "start" | "pause"): void {
  const does = { start: "resume the schedule of a sync", pause: "pause the schedule of a sync" } as const;
  withExpectedRevision(named(group.command(verb)))
    .summary(does[verb])
    .action(
      act(async (session, target: ConnectionName, name: SyncName, { expectedRevision = 0n }: RevisionOption) => {
        const client = session.client(SyncService);
        const request = { ref: refOfSync(session, target, name), expectedRevision };
        const { sync } = await (verb === "start" ? client.startSync(request) : client.pauseSync(request));
        if (sync !== undefined) await session.output.done(SyncSchema, sync, sentenceOf(sync));
      }),
    );
}

function addFrequency(group: Command, act: Act): void {
  withExpectedRevision(named(group.command("frequency")))
    .argument(
      "<frequency>",
      "for example 'every 5 minutes' or 1d; `script` resets it to the script's frequency",
      frequencyOf,
    )
    .summary("set how often a sync runs for a connection")
    .action(
      act(
        async (
          session,
          target: ConnectionName,
          name: SyncName,
          frequency: string,
          { expectedRevision = 0n }: RevisionOption,
        ) => {
          const request = { ref: refOfSync(session, target, name), frequency, expectedRevision };
          const { sync } = await session.client(SyncService).setSyncFrequency(request);
          if (sync !== undefined) await session.output.done(SyncSchema, sync, sentenceOf(sync));
        },
      ),
    );
}

const named = (command: Command): Command =>
  command
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .argument("<sync>", "name of the sync, or name::variant", syncName);

function syncName(text: string): SyncName {
  const [name = "", variant = "", ...more] = text.split("::");
  if (name === "" || more.length > 0) throw new InvalidArgumentError("Write it as name or name::variant.");
  return { name, variant };
}

/** Parses a frequency; an empty one in the request means the script's own. */
function frequencyOf(text: string): string {
  if (/^script('?s)?$/.test(text)) return "";
  const parsed = parseFrequency(text);
  if (!parsed.ok)
    throw new InvalidArgumentError(`It ${parsed.problem}; or \`script\`, to reset it to the script's frequency.`);
  return text;
}

const refOfSync = (session: CommandSession, target: ConnectionName, { name, variant }: SyncName) => ({
  connection: refOf(session, target),
  name,
  variant,
});

const variantOf = ({ variant }: SyncName): string => variant || baseVariant;

const fullName = (sync: SyncName): string =>
  variantOf(sync) === baseVariant ? sync.name : `${sync.name}::${sync.variant}`;

const syncText = ({ ref }: Sync): string => (ref === undefined ? "" : fullName(ref));

const states: Readonly<Partial<Record<Sync_State, string>>> = {
  [Sync_State.SCHEDULED]: "scheduled",
  [Sync_State.RUNNING]: "running",
  [Sync_State.PAUSED]: "paused",
  [Sync_State.FAILED]: "failed",
};

/** Adds the reason of a failure: `failed: script_error`. */
function stateText({ state, latestRun }: Sync): string {
  const name = states[state] ?? `state ${state}`;
  const why = state === Sync_State.FAILED ? latestRun?.problem?.code : undefined;
  return why === undefined ? name : `${name}: ${why}`;
}

function stateTone({ state }: Sync): Tone {
  if (state === Sync_State.FAILED) return "bad";
  if (state === Sync_State.PAUSED) return "dim";
  return state === Sync_State.SCHEDULED ? "good" : "plain";
}

const recordsText = ({ recordCounts }: Sync): string =>
  Object.entries(recordCounts)
    .map(([model, of]) => `${model} ${formatNumber(Number(of))}`)
    .join(", ");

function sentenceOf(sync: Sync): string {
  const next = formatTime(sync.nextRunAt);
  const about = `${syncText(sync)} of ${nameOf(sync.ref?.connection)} is ${stateText(sync)}, ${sync.frequency}`;
  return next === "" ? about : `${about}, next at ${next}`;
}
