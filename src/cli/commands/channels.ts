import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, InvalidArgumentError } from "commander";
import {
  type Channel,
  type Channel_State,
  Channel_StateSchema,
  ChannelSchema,
  ChannelService,
  Channel_State as State,
  type WatchChannelsResponse,
  WatchChannelsResponseSchema,
} from "../../gen/latchkey/v1/channel_pb.ts";
import { WatchMarker_Kind } from "../../gen/latchkey/v1/watch_pb.ts";
import type { Act } from "../session.ts";
import { escapeControl, escapeControlInLines } from "../terminal/escape-control.ts";
import { durationMs, revision } from "../terminal/option-values.ts";
import type { Paint, Tone } from "../terminal/paint.ts";
import { plainJson } from "../terminal/plain-json.ts";
import { write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";
import { type ConnectionName, connectionName, nameOf, refOf } from "./connections/names.ts";

interface ChannelListOptions {
  readonly integration?: string;
  readonly connection?: ConnectionName;
  readonly state?: readonly Channel_State[];
}

interface ChannelCreateOptions {
  readonly kind?: string;
  readonly resource?: string;
  readonly id?: string;
  readonly for?: number;
}

/** Adds the `channels` commands. */
export function addChannels(program: Command, act: Act): void {
  const group = program.command("channels").summary("manage watch channels (webhook subscriptions at providers)");
  addList(group, act);
  addShow(group, act);
  addCreate(group, act);
  addRenew(group, act);
  addStop(group, act);
  addWatch(group, act);
}

function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the channels of an environment, by connection")
    .option("--integration <key>", "only channels of this integration")
    .option("--connection <integration/connection>", "only channels of this connection", connectionName)
    .option("--state <state>", `only channels in this state: ${stateNames.join(", ")}; repeatable`, statesNamed);
  listCommand(list, act, {
    schema: ChannelSchema,
    none: "no channels",
    defaultLimit: 100,
    rpc: ({ client, environment }, page, { integration, connection, state = [] }: ChannelListOptions) => {
      if (integration !== undefined && connection !== undefined)
        throw new UsageMistake("--connection already names the integration; remove --integration");
      return client(ChannelService).listChannels({
        environment,
        integration: connection?.integration ?? integration ?? "",
        connectionId: connection?.id ?? "",
        states: [...state],
        ...page,
      });
    },
    items: ({ channels }) => channels,
    columns: [
      { title: "CHANNEL", text: ({ id }) => id },
      { title: "CONNECTION", text: ({ connection: ref }) => nameOf(ref) },
      { title: "WATCHES", text: ({ resourceKind, resource }) => `${resourceKind} ${resource}`.trim() },
      { title: "STATE", text: stateText, tone: stateTone },
      { title: "RENEWED", time: (channel) => (isCurrent(channel) ? channel.renewAt : undefined) },
      { title: "EXPIRES", time: ({ expiresAt }) => expiresAt },
      { title: "LAST HEARD", time: ({ lastNotifiedAt }) => lastNotifiedAt },
    ],
  });
}

function addShow(group: Command, act: Act): void {
  const show = group
    .command("get")
    .alias("show")
    .summary("show a channel")
    .argument(...channelArgument);
  objectCommand(show, act, ChannelSchema, async ({ client, environment }, id: string) => {
    const { channel } = await client(ChannelService).getChannel({ environment, id });
    return channel;
  });
}

function addCreate(group: Command, act: Act): void {
  const create = group
    .command("create")
    .summary("create a channel at a provider; Latchkey renews it automatically")
    .argument("<integration/connection>", "for example calendar/ada", connectionName)
    .option("--kind <kind>", "kind of resource to watch (default: the provider's first)")
    .option("--resource <resource>", "resource to watch (default: the kind's default, such as primary)")
    .option("--id <id>", "id of the channel (default: generated)")
    .option("--for <duration>", "lifetime to request, for example 7d (default: the provider's maximum)", durationMs);
  objectCommand(create, act, ChannelSchema, async (session, name: ConnectionName, given: ChannelCreateOptions) => {
    const { kind = "", resource = "", id = "", for: lifeMs } = given;
    const { channel } = await session.client(ChannelService).createChannel({
      connection: refOf(session, name),
      resourceKind: kind,
      resource,
      id,
      ...(lifeMs === undefined ? {} : { expiresAt: timestampFromMs(Date.now() + lifeMs) }),
    });
    return channel;
  });
}

function addRenew(group: Command, act: Act): void {
  const renew = withExpectedRevision(group.command("renew"))
    .summary("replace a channel with a new one now, then stop the old one")
    .argument(...channelArgument);
  objectCommand(renew, act, ChannelSchema, async ({ client, environment }, id: string, given: RevisionOption) => {
    const request = { environment, id, expectedRevision: given.expectedRevision ?? 0n };
    return (await client(ChannelService).renewChannel(request)).channel;
  });
}

function addStop(group: Command, act: Act): void {
  const stop = withExpectedRevision(group.command("stop"))
    .summary("stop a channel; it is not replaced")
    .argument(...channelArgument);
  objectCommand(stop, act, ChannelSchema, async ({ client, environment }, id: string, given: RevisionOption) => {
    const request = { environment, id, expectedRevision: given.expectedRevision ?? 0n };
    return (await client(ChannelService).stopChannel(request)).channel;
  });
}

const channelArgument = ["<channel>", "id of the channel"] as const;

function addWatch(group: Command, act: Act): void {
  group
    .command("watch")
    .option("--from-revision <revision>", "resume after this revision", revision)
    .summary("list the channels of an environment, then print each change")
    .action(
      act(async ({ client, output, environment, terminal }, given: { readonly fromRevision?: bigint }) => {
        const { fromRevision = 0n } = given;
        let seen = fromRevision;
        let isWhole = false;
        try {
          for await (const step of client(ChannelService).watchChannels({ environment, fromRevision })) {
            // Within a snapshot, there is no revision to resume from yet.
            isWhole ||= step.event.case === "marker" && step.event.value.kind !== WatchMarker_Kind.SNAPSHOT_BEGIN;
            if (isWhole) seen = step.event.value?.revision ?? seen;
            const text = output.json
              ? escapeControlInLines(JSON.stringify(plainJson(WatchChannelsResponseSchema, step)))
              : described(step, output.paint);
            if (text !== "") await write(terminal.stdout, `${text}\n`);
          }
        } catch (error) {
          // An interrupt is the normal end of a watch.
          if (terminal.signal.aborted) return;
          await output.note(`Use --from-revision ${seen} to resume here.`);
          throw error;
        }
      }),
    );
}

function described({ event }: WatchChannelsResponse, paint: Paint): string {
  if (event.case === "put") {
    const { id, connection, revision: at } = event.value;
    const state = paint(stateTone(event.value), escapeControl(stateText(event.value)));
    return `${at}  put      ${escapeControl(id)}  ${escapeControl(nameOf(connection))}  ${state}`;
  }
  if (event.case === "deleted")
    return `${event.value.revision}  ${paint("bad", "deleted")}  ${escapeControl(event.value.id)}`;
  if (event.value?.kind === WatchMarker_Kind.SNAPSHOT_BEGIN) return paint("dim", "snapshot:");
  if (event.value?.kind === WatchMarker_Kind.SNAPSHOT_END) return paint("dim", "end of the snapshot; changes follow");
  return "";
}

const isCurrent = ({ state }: Channel): boolean => state === State.ACTIVE || state === State.RENEWING;

const nameOfState = (state: Channel_State): string =>
  Channel_StateSchema.value[state]?.name.replace(/^STATE_/, "").toLowerCase() ?? `state ${state}`;

const states: ReadonlyMap<string, Channel_State> = new Map(
  [State.CREATING, State.ACTIVE, State.RENEWING, State.STOPPING, State.STOPPED, State.EXPIRED, State.FAILED].map(
    (state) => [nameOfState(state), state],
  ),
);
const stateNames = [...states.keys()];

function statesNamed(text: string, before: readonly Channel_State[] = []): readonly Channel_State[] {
  const state = states.get(text);
  if (state === undefined) throw new InvalidArgumentError(`It must be one of ${stateNames.join(", ")}.`);
  return [...before, state];
}

function stateText({ state, stateReason, managed, silent }: Channel): string {
  const text = stateReason === "" ? nameOfState(state) : `${nameOfState(state)}: ${stateReason}`;
  const marks = [...(silent ? ["silent"] : []), ...(managed ? [] : ["a script's own"])];
  return marks.length === 0 ? text : `${text} (${marks.join(", ")})`;
}

function stateTone(channel: Channel): Tone {
  if (isCurrent(channel)) return channel.stateReason === "" && !channel.silent ? "good" : "warning";
  if (channel.state === State.FAILED || channel.state === State.EXPIRED) return "bad";
  return "dim";
}
