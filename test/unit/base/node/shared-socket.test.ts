import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { afterEach, expect, it } from "vitest";
import { canShareReads, type SharedSocket, sharedSocketOf } from "../../../../src/base/node/shared-socket.ts";
import { setBatchThreshold } from "../../../../src/relay/batching.ts";
import type { ClientConnection } from "../../../../src/relay/client/client-connection.ts";
import type { AnswerRules } from "../../../../src/relay/client/client-side.ts";
import { createClients } from "../../../../src/relay/client/clients.ts";
import { below, seeded } from "../../../support/runner/seeded.ts";

it("finds at start that this Node reads accepted connections into a shared buffer", async () => {
  expect(await canShareReads()).toBe(true);
});

const nothing: AnswerRules = {
  fieldsFor: () => [],
  linesFor: () => "",
  answerFailure() {},
  leave() {},
  passedOn() {},
  takeMore() {},
  cut() {},
};

/** Answers each request with its body, once it is complete. */
function echo(line: ClientConnection, length: number): void {
  const pieces: Buffer[] = [];
  line.begin(nothing, { over() {} });
  const answer = () => line.answer({ status: 200, headers: {}, body: Buffer.concat(pieces).toString("latin1") });
  // Never while the connection is in the middle of reading.
  const done = () => void setImmediate(answer);
  if (length === 0) {
    done();
    return;
  }
  const write = (bytes: Buffer) => pieces.push(bytes) > 0;
  const exchange = { mayHaveArrived: true, write, end: done, resume() {}, abort() {} };
  line.sendBody(exchange);
}

/** A different text of that length for each caller, and at each position. */
const textOf = (caller: number, length: number): string =>
  Array.from({ length: Math.ceil(length / 8) }, (_, at) => `${caller}:${at}`.padEnd(8, "."))
    .join("")
    .slice(0, length);

async function serve(inPlaceOf: (accepted: Socket, server: ReturnType<typeof createServer>) => Socket) {
  const handedOver = new Map<Socket, string>();
  const lines = createClients({
    take(line, { fields }) {
      echo(line, fields.contentLength);
      return true;
    },
    handOver(socket) {
      socket.on("end", () => socket.end("bye"));
      socket.on("data", (bytes) => {
        handedOver.set(socket, (handedOver.get(socket) ?? "") + bytes.toString("latin1"));
        socket.pause();
        setTimeout(() => socket.resume(), 2);
      });
    },
    refuse: (socket) => socket.destroy(),
  });
  const server = createServer({ allowHalfOpen: true });
  server.on("connection", (accepted) => lines.open(inPlaceOf(accepted, server)));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const stop = async () => {
    const closed = once(server, "close");
    server.close();
    lines.destroy();
    await closed;
  };
  return { port, handedOver, stop };
}

const usualCrowd = 4;
const ways = [
  ["into one buffer", sharedSocketOf, usualCrowd],
  ["into one buffer, in a crowd", sharedSocketOf, 0],
  ["as Node reads them", (accepted: Socket) => accepted, usualCrowd],
] as const;

afterEach(() => setBatchThreshold(usualCrowd));

it.each(ways)("returns to each caller its own bytes, read %s", async (_, inPlaceOf, crowd) => {
  setBatchThreshold(crowd);
  const { port, stop } = await serve(inPlaceOf);
  const random = seeded(7);
  const turn = () => new Promise(setImmediate);
  const bodies = [0, 1, 900, 16_000, 70_000, 300_000];

  async function call(i: number): Promise<void> {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    const asked = bodies.map((length) => textOf(i, length));
    const sent = asked.map((body) => `PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const whole = sent.join("");
    let came = "";
    socket.on("data", (bytes) => {
      came += bytes.toString("latin1");
    });
    for (let at = 0; at < whole.length; ) {
      const size = 1 + below(random, random() < 0.5 ? 100 : 90_000);
      socket.write(whole.slice(at, at + size));
      at += size;
      await turn();
    }
    const expected = asked.join("");
    const echoed = () => came.replaceAll(/HTTP\/1\.1 200 OK\r\n(?:[^\r\n]+\r\n)*\r\n/g, "");
    await expect.poll(() => echoed().length).toBe(expected.length);
    expect(echoed() === expected).toBe(true);
    socket.destroy();
  }

  await Promise.all(Array.from({ length: 12 }, (_, i) => call(i)));
  await stop();
});

it.each(ways)("hands over all unusual input, and its end, read %s", async (_, inPlaceOf, crowd) => {
  setBatchThreshold(crowd);
  const { port, handedOver, stop } = await serve(inPlaceOf);
  const odd = Array.from({ length: 6 }, (_, i) => `NONSENSE\r\n${textOf(i, 400_000)}`);

  async function call(text: string): Promise<void> {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    let came = "";
    socket.on("data", (bytes) => {
      came += String(bytes);
    });
    socket.write("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    await expect.poll(() => came).toContain("200 OK");
    socket.end(text);
    await once(socket, "close");
    expect(came.endsWith("bye")).toBe(true);
  }

  await Promise.all(odd.map(call));
  const read = [...handedOver.values()].sort();
  expect(read.map(({ length }) => length)).toEqual(odd.map(({ length }) => length));
  expect(read.every((text, i) => text === odd[i])).toBe(true);
  await stop();
});

/** A caller's connection in batch mode, and its other end, which can send several reads in a tick. */
async function openInCrowd() {
  setBatchThreshold(0);
  const sockets: SharedSocket[] = [];
  const served = await serve((accepted, server) => {
    const socket = sharedSocketOf(accepted, server);
    sockets.push(socket);
    return socket;
  });
  const caller = connect(served.port, "127.0.0.1");
  await expect.poll(() => sockets.length).toBe(1);
  /** In one tick, as when more than a thousand connections are readable at once. */
  const give = (pieces: readonly string[]) => {
    for (const piece of pieces) sockets[0]?.took(piece.length, Buffer.from(piece));
  };
  return { ...served, caller, give, socket: sockets[0] };
}

it.each([6, 30, 50, 70, 85])("joins two reads in one tick of batch mode (%i)", async (at) => {
  const { caller, give, stop } = await openInCrowd();
  const get = "GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
  const all = `PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789${get}`;
  give([all.slice(0, at), all.slice(at)]);
  let came = "";
  caller.on("data", (bytes) => {
    came += String(bytes);
  });
  await expect.poll(() => came.match(/HTTP\/1.1 200/g)?.length).toBe(2);
  expect(came).toContain("\r\n\r\n0123456789HTTP/1.1 200");
  caller.destroy();
  await stop();
});

it.each([[["NONSENSE\r\n", "more, ", "and more"]], [["NONSENSE\r\nmore, and more"]]])(
  "hands over everything in one tick of batch mode, the end included: %j",
  async (pieces) => {
    const { caller, give, socket, handedOver, stop } = await openInCrowd();
    let came = "";
    caller.on("data", (bytes) => {
      came += String(bytes);
    });
    give(pieces);
    // What Node does at the end of input.
    socket?.push(null);
    socket?.read(0);
    await once(caller, "end");
    expect([[...handedOver.values()], came]).toEqual([["NONSENSE\r\nmore, and more"], "bye"]);
    caller.end();
    await stop();
  },
);
