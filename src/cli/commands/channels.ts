import { toJsonString } from "@bufbuild/protobuf";
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
import { moment } from "../terminal/moment.ts";
import { count, durationMs, revision } from "../terminal/option-values.ts";
import { type Extent, pagesOf } from "../terminal/paging.ts";
import type { Paint, Tone } from "../terminal/paint.ts";
import { write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { visible, visibleLines } from "../terminal/visible.ts";
import { type ConnectionName, connectionName, nameOf, refOf } from "./connections/names.ts";

const defaultLimit = 100;
const maxPageSize = 1_000;

interface ChannelListOptions extends Extent {
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

interface ChannelRevisionOption {
  readonly expectedRevision?: bigint;
}

/** Adds the `channels` commands. */
export function addChannels(program: Command, act: Act): void {
  const group = program.command("channels").summary("providers' promises to notify, which are kept alive");
  addList(group, act);
  addShow(group, act);
  addCreate(group, act);
  addRenew(group, act);
  addStop(group, act);
  addWatch(group, act);
}

function addList(group: Command, act: Act): void {
  group
    .command("list")
    .option("--integration <key>", "only those of this integration")
    .option("--connection <integration/connection>", "only those of this connection", connectionName)
    .option("--state <state>", `only those in this state: ${stateNames.join(", ")}; repeatable`, statesNamed)
    .option("--limit <count>", `at most this many (default: ${defaultLimit})`, count)
    .option("--all", "all of them")
    .summary("an environment's channels, in the order of their connections")
    .action(
      act(
        async (
          { client, output, environment },
          { integration, connection, state = [], limit, all }: ChannelListOptions,
        ) => {
          if (integration !== undefined && connection !== undefined)
            throw new UsageMistake("--connection names its integration already");
          const filter = {
            integration: connection?.integration ?? integration ?? "",
            connectionId: connection?.id ?? "",
            states: [...state],
          };
          const most = limit ?? (all === true ? undefined : defaultLimit);
          let more = false;
          const pages = pagesOf({
            maxPageSize,
            limit: most,
            onMore: () => (more = true),
            fetch: async (page) => {
              const { channels, nextPageToken } = await client(ChannelService).listChannels({
                environment,
                ...filter,
                ...page,
              });
              return { items: channels, nextPageToken };
            },
          });
          await output.many({
            schema: ChannelSchema,
            none: "no channels",
            pages,
            columns: [
              { title: "CHANNEL", text: ({ id }) => id },
              { title: "CONNECTION", text: ({ connection: ref }) => nameOf(ref) },
              { title: "WATCHES", text: ({ resourceKind, resource }) => `${resourceKind} ${resource}`.trim() },
              { title: "STATE", text: stateText, tone: stateTone },
              { title: "RENEWED", text: (channel) => (isCurrent(channel) ? moment(channel.renewAt) : "") },
              { title: "EXPIRES", text: ({ expiresAt }) => moment(expiresAt) },
              { title: "LAST HEARD", text: ({ lastNotifiedAt }) => moment(lastNotifiedAt) },
            ],
          });
          if (more) await output.note(`There may be more than these ${most}: --all lists them, --limit so many.`);
        },
      ),
    );
}

function addShow(group: Command, act: Act): void {
  group
    .command("show")
    .argument("<channel>", "its id")
    .summary("one channel")
    .action(
      act(async ({ client, output, environment }, id: string) => {
        const { channel } = await client(ChannelService).getChannel({ environment, id });
        if (channel !== undefined) await output.one(ChannelSchema, channel);
      }),
    );
}

function addCreate(group: Command, act: Act): void {
  group
    .command("create")
    .argument("<integration/connection>", "such as calendar/ada", connectionName)
    .option("--kind <kind>", "what kind of thing to watch (default: the provider's first)")
    .option("--resource <resource>", "what to watch (default: the kind's default, such as primary)")
    .option("--id <id>", "the channel's id (default: one is made)")
    .option("--for <duration>", "for how long, such as 7d (default: as long as the provider likes)", durationMs)
    .summary("have a provider notify of changes; the channel is renewed from then on")
    .action(
      act(
        async (
          session,
          name: ConnectionName,
          { kind = "", resource = "", id = "", for: lifeMs }: ChannelCreateOptions,
        ) => {
          const { channel } = await session.client(ChannelService).createChannel({
            connection: refOf(session, name),
            ...{ resourceKind: kind, resource, id },
            ...(lifeMs === undefined ? {} : { expiresAt: timestampFromMs(Date.now() + lifeMs) }),
          });
          if (channel !== undefined) await session.output.one(ChannelSchema, channel);
        },
      ),
    );
}

function addRenew(group: Command, act: Act): void {
  group
    .command("renew")
    .argument("<channel>", "its id")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("put another in its place now, and stop it after that")
    .action(
      act(async ({ client, output, environment }, id: string, { expectedRevision = 0n }: ChannelRevisionOption) => {
        const { channel } = await client(ChannelService).renewChannel({ environment, id, expectedRevision });
        if (channel !== undefined) await output.one(ChannelSchema, channel);
      }),
    );
}

function addStop(group: Command, act: Act): void {
  group
    .command("stop")
    .argument("<channel>", "its id")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("stop a channel, with none in its place")
    .action(
      act(async ({ client, output, environment }, id: string, { expectedRevision = 0n }: ChannelRevisionOption) => {
        const { channel } = await client(ChannelService).stopChannel({ environment, id, expectedRevision });
        if (channel !== undefined) await output.one(ChannelSchema, channel);
      }),
    );
}

function addWatch(group: Command, act: Act): void {
  group
    .command("watch")
    .option("--from-revision <revision>", "resume after this revision", revision)
    .summary("an environment's channels, and then every change to them")
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
              ? visibleLines(toJsonString(WatchChannelsResponseSchema, step, { useProtoFieldName: true }))
              : described(step, output.paint);
            if (text !== "") await write(terminal.stdout, `${text}\n`);
          }
        } catch (error) {
          // An interrupt is the normal end of a watch.
          if (terminal.signal.aborted) return;
          await output.note(`--from-revision ${seen} resumes where this ended.`);
          throw error;
        }
      }),
    );
}

function described({ event }: WatchChannelsResponse, paint: Paint): string {
  if (event.case === "put") {
    const { id, connection, revision: at } = event.value;
    const state = paint(stateTone(event.value), visible(stateText(event.value)));
    return `${at}  put      ${visible(id)}  ${visible(nameOf(connection))}  ${state}`;
  }
  if (event.case === "deleted")
    return `${event.value.revision}  ${paint("bad", "deleted")}  ${visible(event.value.id)}`;
  if (event.value?.kind === WatchMarker_Kind.SNAPSHOT_BEGIN) return paint("dim", "what there is:");
  if (event.value?.kind === WatchMarker_Kind.SNAPSHOT_END) return paint("dim", "that was all there is; changes follow");
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

function stateText({ state, stateReason, managed }: Channel): string {
  const text = stateReason === "" ? nameOfState(state) : `${nameOfState(state)}: ${stateReason}`;
  return managed ? text : `${text} (a script's own)`;
}

function stateTone(channel: Channel): Tone {
  if (isCurrent(channel)) return channel.stateReason === "" ? "good" : "warning";
  if (channel.state === State.FAILED || channel.state === State.EXPIRED) return "bad";
  return "dim";
}
