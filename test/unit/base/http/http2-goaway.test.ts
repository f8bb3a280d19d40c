import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Http2SessionManager } from "@connectrpc/connect-node";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { createHttp2Sessions, type Http2Sessions } from "../../../../src/base/http/http2-sessions.ts";
import { ClientPace, closesAtMs } from "../../../../src/base/http/session-deadlines.ts";
import { createCallerSessions } from "../../../../src/relay/http2/callers/caller-sessions.ts";
import { StreamResponse } from "../../../../src/relay/http2/stream-front.ts";
import { flags, frame, frameTypes, literal, openFrames, uint32 } from "../../../cases/control-plane/frames.ts";

interface Place {
  readonly sessions: Pick<Http2Sessions, "serve" | "leave" | "drain" | "destroy">;
  readonly port: number;
  readonly served: () => number;
}

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  // It listens on a port.
  return (server.address() as AddressInfo).port;
}

type StartSessions = (answer: (end: () => void) => void) => Place["sessions"];

const limits = { maxHeadBytes: 65_536, maxHeadLines: 100 };

/** Those of Node, and our own. */
const kinds: Readonly<Record<string, StartSessions>> = {
  "Node's": (answer) =>
    createHttp2Sessions({
      ...limits,
      refuse: ({ message }) => expect.unreachable(message),
      handle: (request, response) => {
        request.resume();
        request.once("end", () => answer(() => response.end("here")));
      },
    }),
  our: (answer) =>
    createCallerSessions({
      ...limits,
      stallMs: 60_000,
      refuse: (message) => expect.unreachable(message),
      serve(request) {
        const response = new StreamResponse(request);
        if (request.complete) answer(() => response.end("here"));
        else {
          request.on("end", () => answer(() => response.end("here")));
          request.resume();
        }
      },
    }),
};

let startSessions: StartSessions;

/** Answers each request after so long. */
async function startPlace(answerAfterMs: () => number): Promise<Place> {
  let served = 0;
  const sessions = startSessions((end) => {
    served += 1;
    setTimeout(end, answerAfterMs());
  });
  onTestFinished(() => sessions.destroy());
  const port = await listen(createServer({ noDelay: true }, sessions.serve));
  return { sessions, port, served: () => served };
}

/** Sends HTTP/2 requests like connect-node: a kept session, a new one after GOAWAY, no retry. */
function startCallers({ count, port }: { readonly count: number; readonly port: () => number }) {
  const failed: string[] = [];
  let answered = 0;
  let isOver = false;
  let manager: Http2SessionManager;
  async function ask(): Promise<void> {
    const stream = await manager.request("POST", "/", {}, {});
    await new Promise<void>((resolve, reject) => {
      stream.once("error", reject);
      stream.once("end", resolve).resume();
      stream.end("body");
    });
    answered += 1;
  }
  async function askOn(): Promise<void> {
    while (!isOver) await ask().catch((error: Error) => failed.push(error.message));
  }
  async function start(): Promise<() => Promise<void>> {
    const front = createServer({ noDelay: true }, (from) => {
      const to = connect({ port: port(), host: "127.0.0.1", noDelay: true });
      from.pipe(to).pipe(from);
      from.on("error", () => to.destroy());
      to.on("error", () => from.destroy());
    });
    manager = new Http2SessionManager(`http://127.0.0.1:${await listen(front)}`);
    const all = Array.from({ length: count }, askOn);
    return async () => {
      isOver = true;
      await Promise.all(all);
    };
  }
  return { start, failed, answered: () => answered };
}

describe.each(Object.entries(kinds))("a session that is left (%s sessions)", (_, start) => {
  beforeEach(() => {
    startSessions = start;
  });

  it.each([
    ["30 ms later", 1, 5],
    ["30 ms later", 3, 5],
    ["30 ms later", 20, 10],
    ["at once", 1, 10],
    ["at once", 20, 5],
  ])("and drained %s loses no request of %i busy callers, in %i GOAWAYs", async (when, count, goodbyes) => {
    for (let said = 0; said < goodbyes; said += 1) {
      const old = await startPlace(() => said % 3);
      const next = await startPlace(() => 0);
      let place = old;
      const callers = startCallers({ count, port: () => place.port });
      const stop = await callers.start();
      await sleep(20 + (said % 7));
      old.sessions.leave();
      place = next;
      if (when !== "at once") await sleep(30);
      // On a busy machine they arrive later.
      await expect.poll(callers.answered).toBeGreaterThan(count);
      const before = callers.answered();
      old.sessions.drain();
      await sleep(20);
      await expect.poll(callers.answered).toBeGreaterThan(before);
      await stop();
      expect(callers.failed).toEqual([]);
    }
  });

  it.each([1, 2, 3, 4])("accepts a request in transit at GOAWAY, %i ticks before", async (turns) => {
    const place = await startPlace(() => 0);
    const manager = new Http2SessionManager(`http://127.0.0.1:${place.port}`);
    const answers: string[] = [];
    const ask = async () => {
      const stream = await manager.request("POST", "/", {}, {});
      stream.end();
      for await (const chunk of stream) answers.push(String(chunk));
    };
    await ask();
    const crossing = ask();
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    place.sessions.drain();
    await crossing;
    expect(answers).toEqual(["here", "here"]);
  });
});

const get = Buffer.concat([Buffer.from([0x82, 0x84, 0x86]), literal(":authority", "a")]);
const everyStream = 2 ** 31 - 1;
/** The longest waits of a session that is left: for answers, then for a PING; for the PING behind the GOAWAY. */
const patienceMs = 250;
const roundTripMs = 1_000;

/** A client that sends frames one by one to a session whose timers stand still. It answers PINGs when told to. */
async function openClient() {
  const answers: (() => void)[] = [];
  let answersAtOnce = false;
  const sessions = startSessions((end) => {
    answers.push(end);
    if (answersAtOnce) end();
  });
  let isClosed = false;
  const server = createServer({ noDelay: true }, (socket) => {
    socket.once("close", () => {
      isClosed = true;
    });
    sessions.serve(socket);
  });
  const port = await listen(server);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => {
    vi.useRealTimers();
    sessions.destroy();
  });
  /** What arrived, in order. */
  const got: string[] = [];
  const pings: Buffer[] = [];
  let echoes = 0;
  const peer = await openFrames(`http://127.0.0.1:${port}`, {}, ({ type, flags: set, stream, payload }) => {
    if (type === frameTypes.data && (set & flags.endStream) !== 0) got.push(`answer ${stream}`);
    if (type === frameTypes.reset) got.push(`reset ${stream}`);
    if (type === frameTypes.goaway) {
      const goaway = `goaway ${payload.readUInt32BE(0)} ${payload.readUInt32BE(4)}`;
      // Node repeats its last GOAWAY when it ends the session.
      if (got.findLast((one) => one.startsWith("goaway")) !== goaway) got.push(goaway);
    }
    if (type !== frameTypes.ping) return;
    if ((set & flags.ack) !== 0) {
      echoes += 1;
      return;
    }
    got.push("ping");
    pings.push(Buffer.from(payload));
  });
  /** Resolves when the session has handled all that was sent, and all that it has written was read. */
  async function settle(): Promise<void> {
    const wanted = echoes + 1;
    peer.send(frame("ping", { payload: Buffer.alloc(8) }));
    await peer.until(() => echoes === wanted);
  }
  return {
    peer,
    got,
    leave: () => sessions.leave(),
    drain: () => sessions.drain(),
    served: () => answers.length,
    isClosed: () => isClosed,
    begin: (...streams: readonly number[]) =>
      peer.send(
        ...streams.map((stream) =>
          frame("headers", { stream, flags: flags.endHeaders | flags.endStream, payload: get }),
        ),
      ),
    /** Ends the answer of the request that was served as the nth, or of all. */
    answer: (nth?: number) => {
      for (const end of nth === undefined ? answers : [answers[nth - 1]]) end?.();
    },
    answerAtOnce: () => {
      answersAtOnce = true;
    },
    cancel: (stream: number) => peer.send(frame("reset", { stream, payload: uint32(8) })),
    answerPing: () => peer.send(frame("ping", { flags: flags.ack, payload: pings.shift() ?? Buffer.alloc(8) })),
    has: (text: string) => peer.until(() => got.includes(text)),
    hasPings: (count: number) => peer.until(() => got.filter((one) => one === "ping").length === count),
    settle,
    /** Lets time pass, and the session write what is due. */
    async pass(ms: number): Promise<void> {
      await vi.advanceTimersByTimeAsync(ms);
      await settle();
    },
  };
}

/** A client that was answered, reads nothing, and whose session is drained; the session's clock is ahead by that time. */
async function drainIdleClient(startMs: number) {
  const now = performance.now.bind(performance);
  const client = await openClient();
  client.answerAtOnce();
  client.begin(1);
  await client.has("answer 1");
  await client.settle();
  client.peer.socket.pause();
  let aheadMs = startMs;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + aheadMs);
  onTestFinished(() => clock.mockRestore());
  client.drain();
  // Time passes for the session in steps: each wait begins when the one before is over.
  for (const ms of [patienceMs, roundTripMs, roundTripMs]) {
    await vi.advanceTimersByTimeAsync(ms);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const pass = (ms: number): number => {
    aheadMs += ms;
    return aheadMs;
  };
  return { client, pass };
}

describe.each(Object.entries(kinds))("what a client reads of a session that is left (%s sessions)", (_, start) => {
  beforeEach(() => {
    startSessions = start;
  });

  it("is GOAWAY when all answers were read, then the answers of held streams, then the last stream", async () => {
    const client = await openClient();
    client.begin(1, 3);
    await client.settle();
    client.leave();
    client.begin(5, 7, 9);
    // Never served, and not one of those that are waited for.
    client.cancel(9);
    await client.settle();
    client.answer(2);
    await client.has("answer 3");
    await client.settle();
    expect([client.served(), client.got]).toEqual([2, ["answer 3"]]);
    client.answer(1);
    await client.hasPings(1);
    await client.settle();
    expect([client.served(), client.got]).toEqual([2, ["answer 3", "answer 1", "ping"]]);
    client.answerPing();
    await client.hasPings(2);
    expect(client.got.slice(3)).toEqual([`goaway ${everyStream} 0`, "ping"]);
    expect(client.served()).toBe(4);
    // This one has crossed the GOAWAY.
    client.begin(11);
    await client.settle();
    expect(client.served()).toBe(5);
    client.drain();
    client.drain();
    client.answer();
    await client.has("answer 11");
    client.answerPing();
    await client.peer.closed;
    expect(client.got.slice(5).toSorted()).toEqual(["answer 11", "answer 5", "answer 7", "goaway 11 0"]);
  });

  it("waits neither long for an answer, nor for a client that answers no PING", async () => {
    const client = await openClient();
    client.begin(1);
    await client.settle();
    client.leave();
    client.begin(3);
    await client.settle();
    await client.pass(patienceMs - 1);
    expect([client.served(), client.got]).toEqual([1, []]);
    await client.pass(1);
    expect([client.served(), client.got]).toEqual([1, ["ping"]]);
    await client.pass(patienceMs - 1);
    expect([client.served(), client.got]).toEqual([1, ["ping"]]);
    await client.pass(1);
    expect([client.served(), client.got]).toEqual([2, ["ping", `goaway ${everyStream} 0`, "ping"]]);
    client.drain();
    await client.pass(roundTripMs - 1);
    expect(client.got).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(1);
    await client.has("goaway 3 0");
    // The session ends with its last stream.
    client.answer(2);
    await client.has("answer 3");
    client.answer(1);
    await client.peer.closed;
    expect(client.got.slice(3)).toEqual(["goaway 3 0", "answer 3", "answer 1"]);
  });

  it("is the same at a stop without a delay: GOAWAY never follows an answer that the client has yet to read", async () => {
    const client = await openClient();
    client.begin(1);
    await client.settle();
    client.leave();
    client.drain();
    client.begin(3);
    await client.settle();
    expect([client.served(), client.got]).toEqual([1, []]);
    client.answer(1);
    await client.hasPings(1);
    client.begin(5);
    await client.settle();
    expect([client.served(), client.got]).toEqual([1, ["answer 1", "ping"]]);
    client.answerPing();
    await client.hasPings(2);
    expect([client.served(), client.got.slice(2)]).toEqual([3, [`goaway ${everyStream} 0`, "ping"]]);
    client.answer();
    client.answerPing();
    await client.peer.closed;
    expect(client.got.slice(4).toSorted()).toEqual(["answer 3", "answer 5", "goaway 5 0"]);
  });

  it("is GOAWAY after a wait for the first request of a client that sends none", async () => {
    const client = await openClient();
    await client.settle();
    client.drain();
    await client.pass(patienceMs - 1);
    expect(client.got).toEqual([]);
    await client.pass(1);
    expect(client.got).toEqual(["ping"]);
    client.answerPing();
    await client.hasPings(2);
    expect(client.got.slice(1)).toEqual([`goaway ${everyStream} 0`, "ping"]);
    client.begin(1);
    await client.settle();
    client.answer();
    client.answerPing();
    await client.peer.closed;
    expect(client.got.slice(3).toSorted()).toEqual(["answer 1", "goaway 1 0"]);
  });

  it("is GOAWAY, then the answer to a first request that comes during that wait", async () => {
    const client = await openClient();
    client.answerAtOnce();
    await client.settle();
    client.drain();
    client.begin(1);
    await client.hasPings(1);
    expect(client.served()).toBe(0);
    client.answerPing();
    await client.has("answer 1");
    expect(client.got.filter((one) => one !== "ping")).toEqual([`goaway ${everyStream} 0`, "answer 1"]);
  });

  it("is not waited for if the client was idle and reads nothing: its connection is closed soon", async () => {
    // Like httpx: neither GOAWAY nor the end of the connection is seen before the next request.
    const { client, pass } = await drainIdleClient(12_000);
    await expect
      .poll(
        () => {
          const aheadMs = pass(500);
          return client.isClosed() || aheadMs > 30_000;
        },
        { interval: 100 },
      )
      .toBe(true);
    expect(client.isClosed()).toBe(true);
  });

  it("is waited for while the client still reads: 30 s at most", async () => {
    const { client, pass } = await drainIdleClient(0);
    const closedAtMs = async (tickMs: number) => {
      let aheadMs = 0;
      await expect
        .poll(
          () => {
            aheadMs = pass(tickMs);
            client.peer.send(frame("windowUpdate", { payload: uint32(1) }));
            return client.isClosed() || aheadMs > 60_000;
          },
          { interval: 100 },
        )
        .toBe(true);
      return aheadMs;
    };
    // Looked at every second, in which six pass for the session.
    expect(await closedAtMs(600)).toBeGreaterThan(20_000);
    expect(client.isClosed()).toBe(true);
  });

  it("is no announcement if the client has ended the session itself: held streams are served at once", async () => {
    const client = await openClient();
    client.begin(1);
    await client.settle();
    client.leave();
    client.begin(3);
    client.peer.send(frame("goaway", { payload: Buffer.concat([uint32(0), uint32(0)]) }));
    await client.has("goaway 3 0");
    expect(client.served()).toBe(1);
    client.answer(1);
    await client.has("answer 1");
    await expect.poll(client.served).toBe(2);
    client.answer(2);
    await client.peer.closed;
    expect(client.got).toEqual(["goaway 3 0", "answer 1", "answer 3"]);
  });
});

it("gives a client 2 s to close its side, 10 s for its last response, and 30 s for much of it", () => {
  const never = Number.NEGATIVE_INFINITY;
  const ended = (answeredMs: number | undefined, unsentBytes = 0, bulkMs = never, heardMs = never) =>
    closesAtMs({ endedMs: 100_000, answeredMs, pace: { bulkMs, heardMs }, unsentBytes });
  expect([ended(undefined), ended(60_000), ended(95_000), ended(100_000)]).toEqual([
    ...[102_000, 102_000, 105_000, 110_000],
  ]);
  expect([ended(60_000, 1), ended(undefined, 1), ended(95_000, 0, 90_000)]).toEqual([130_000, 102_000, 120_000]);
  // While a client sends something, it reads.
  const heard = (atMs: number) => ended(100_000, 0, never, atMs);
  expect([heard(101_000), heard(105_000), heard(112_000), heard(129_000)]).toEqual([
    ...[110_000, 115_000, 122_000, 130_000],
  ]);
  const pace = new ClientPace();
  pace.look({ bytesRead: 0, bytesWritten: 60_000 }, 1_000);
  expect([pace.bulkMs, pace.heardMs]).toEqual([never, never]);
  pace.look({ bytesRead: 13, bytesWritten: 200_000 }, 2_000);
  pace.look({ bytesRead: 13, bytesWritten: 210_000 }, 3_000);
  expect([pace.bulkMs, pace.heardMs]).toEqual([2_000, 2_000]);
});
