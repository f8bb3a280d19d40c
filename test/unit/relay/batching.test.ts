import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterEach, expect, it, onTestFinished } from "vitest";
import {
  type BatchMember,
  finishTick,
  hasTickEnd,
  setBatchThreshold,
  waitsForOthers,
  workSoon,
  writeSoon,
} from "../../../src/relay/batching.ts";

const usualCrowd = 4;

afterEach(async () => {
  await new Promise(setImmediate);
  setBatchThreshold(usualCrowd);
});

/** Records when it works and when it writes. */
function noting(name: string, notes: string[]): BatchMember {
  const one: BatchMember = {
    workNow() {
      notes.push(`work ${name}`);
      expect(hasTickEnd()).toBe(true);
      writeSoon(one);
    },
    writeNow: () => void notes.push(`write ${name}`),
  };
  return one;
}

function gather(...all: readonly BatchMember[]): void {
  for (const one of all) {
    expect(waitsForOthers()).toBe(true);
    workSoon(one);
  }
}

it("processes everything that arrived in a tick, then writes everything", async () => {
  setBatchThreshold(0);
  const notes: string[] = [];
  gather(noting("a", notes), noting("b", notes), noting("c", notes));
  expect(notes).toEqual([]);
  await new Promise(setImmediate);
  expect(notes).toEqual(["work a", "work b", "work c", "write a", "write b", "write c"]);
  expect(hasTickEnd()).toBe(false);
  // The next turn begins with nothing.
  gather(noting("d", notes));
  await new Promise(setImmediate);
  expect(notes.slice(6)).toEqual(["work d", "write d"]);
});

it("processes arrived data at once for time checks, also from within, and nothing twice", async () => {
  setBatchThreshold(0);
  const notes: string[] = [];
  const late = noting("late", notes);
  const hurried: BatchMember = {
    workNow() {
      notes.push("hurry");
      finishTick();
      workSoon(late);
    },
    writeNow() {},
  };
  gather(noting("a", notes));
  finishTick();
  gather(noting("b", notes), hurried, noting("c", notes));
  await new Promise(setImmediate);
  const wanted = ["work a", "write a", "work b", "hurry", "work c", "write b", "write c", "work late", "write late"];
  expect(notes).toEqual(wanted);
});

it("continues with the others after an error", async () => {
  setBatchThreshold(0);
  const notes: string[] = [];
  const throwing: BatchMember = {
    workNow() {
      throw new Error("of one");
    },
    writeNow() {},
  };
  gather(throwing, noting("a", notes));
  expect(finishTick).toThrow("of one");
  expect(notes).toEqual([]);
  await new Promise(setImmediate);
  expect(notes).toEqual(["work a", "write a"]);
});

it("is asked to wait only while many arrive at a time", async () => {
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  let answers: boolean[] = [];
  server.on("connection", (socket) => {
    socket.on("data", () => {
      answers.push(waitsForOthers());
      socket.write(".");
    });
  });
  const sockets: Socket[] = [];
  for (let i = 0; i < 32; i += 1) {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    sockets.push(socket);
  }
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  /** All of these sockets send a request, and all are answered. */
  const ask = async (asking: readonly Socket[]) => {
    answers = [];
    const answered = asking.map((socket) => once(socket, "data"));
    for (const socket of asking) socket.write("?");
    await Promise.all(answered);
    return answers;
  };
  const alone = sockets.slice(0, 1);
  for (let i = 0; i < 200; i += 1) expect(await ask(alone)).toEqual([false]);
  for (let i = 0; i < 8; i += 1) await ask(sockets);
  expect(new Set(await ask(sockets))).toEqual(new Set([true]));
  // The turn that shows it is waited for, none after it.
  await ask(alone);
  for (let i = 0; i < 200; i += 1) expect(await ask(alone)).toEqual([false]);
});
