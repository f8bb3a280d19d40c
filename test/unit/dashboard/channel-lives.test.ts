import { fileURLToPath } from "node:url";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { type Channel, ChannelSchema, Channel_State as State } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionRefSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";

interface ChannelLives {
  readonly historiesOf: (channels: readonly Channel[]) => readonly { readonly lives: readonly Channel[] }[];
  readonly spansOf: (
    history: unknown,
    nowMs: number,
  ) => readonly { readonly kind: string; readonly fromMs: number; readonly toMs: number }[];
}

// By its path: the types of the dashboard are those of a browser.
const { historiesOf, spansOf } = (await import(
  fileURLToPath(new URL("../../../src/dashboard/pages/channels/channel-lives.ts", import.meta.url))
)) as ChannelLives;

const hourMs = 3_600_000;
const at = (hour: number) => timestampFromMs(hour * hourMs);

type ChannelChanges = Omit<Partial<Channel>, "$typeName" | "$unknown">;

function channel(state: State, from: number, until: number | undefined, more: ChannelChanges = {}): Channel {
  const connection = create(ConnectionRefSchema, { environment: "dev", integration: "calendar", id: "ada" });
  const made: Channel = create(ChannelSchema, {
    ...{ id: `${from}`, connection, resource: "primary", state, managed: true },
    createdAt: at(from),
    updatedAt: at(state === State.STOPPED ? (until ?? from) : from),
    ...(until !== undefined && { expiresAt: at(until), renewAt: at(until) }),
  });
  return { ...made, ...more };
}

/** The spans of one resource at hour 20, in hours. */
function spans(...channels: Channel[]): string[] {
  const [history, ...others] = historiesOf(channels);
  expect(others).toEqual([]);
  return spansOf(history, 20 * hourMs).map(({ kind, fromMs, toMs }) => `${kind} ${fromMs / hourMs}-${toMs / hourMs}`);
}

it("a renewed channel is one life after the other, and the last one is still to come", () => {
  expect(spans(channel(State.ACTIVE, 10, 30), channel(State.STOPPED, 0, 10))).toEqual([
    "ended 0-10",
    "life 10-20",
    "planned 20-30",
  ]);
});

it("the time between two channels is a gap; that after the last one too, unless somebody stopped it", () => {
  expect(spans(channel(State.EXPIRED, 0, 8), channel(State.ACTIVE, 12, 24))).toEqual([
    "ended 0-8",
    "gap 8-12",
    "life 12-20",
    "planned 20-24",
  ]);
  expect(spans(channel(State.EXPIRED, 0, 15))).toEqual(["ended 0-15", "gap 15-20"]);
  expect(spans(channel(State.STOPPED, 0, 15, { stateReason: "asked" }))).toEqual(["ended 0-15"]);
});

it("silence lasts since the last message, and a refused channel is a point", () => {
  expect(
    spans(channel(State.FAILED, 1, undefined), channel(State.ACTIVE, 2, 40, { silent: true, lastNotifiedAt: at(9) })),
  ).toEqual(["failed 1-1", "life 2-20", "planned 20-40", "silent 9-20"]);
});

it("a request without an answer is a point, and hides no gap", () => {
  expect(
    spans(channel(State.EXPIRED, 0, 8), channel(State.STOPPED, 9, undefined), channel(State.ACTIVE, 12, 40)),
  ).toEqual(["ended 0-8", "failed 9-9", "gap 8-12", "life 12-20", "planned 20-40"]);
});

it("channels of another resource have a history of their own", () => {
  const other = channel(State.ACTIVE, 3, 40, { resource: "team" });
  expect(historiesOf([channel(State.ACTIVE, 2, 40), other])).toHaveLength(2);
});
