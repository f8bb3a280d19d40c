import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Http2SessionManager } from "@connectrpc/connect-node";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { createHttp2Sessions, type Http2Sessions } from "../../../../src/base/http/http2-sessions.ts";
import { createCallerSessions } from "../../../../src/relay/http2/callers/caller-sessions.ts";
import { StreamResponse } from "../../../../src/relay/http2/stream-front.ts";

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
    [1, 10],
    [3, 20],
    [20, 20],
  ])("loses no request of %i busy callers, in %i GOAWAYs", async (count, goodbyes) => {
    for (let said = 0; said < goodbyes; said += 1) {
      const old = await startPlace(() => said % 3);
      const next = await startPlace(() => 0);
      let place = old;
      const callers = startCallers({ count, port: () => place.port });
      const stop = await callers.start();
      await sleep(20 + (said % 7));
      old.sessions.leave();
      place = next;
      await sleep(30);
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

  it("does not wait for an answer that takes long, and ends when it has been given", async () => {
    const old = await startPlace(() => 1_000);
    const manager = new Http2SessionManager(`http://127.0.0.1:${old.port}`);
    const answers: string[] = [];
    const ask = async (name: string) => {
      const stream = await manager.request("POST", "/", {}, {});
      const { session } = stream;
      stream.end();
      const answer = (async () => {
        for await (const _ of stream) answers.push(name);
      })();
      return { session, answer };
    };
    const first = await ask("first");
    await sleep(100);
    old.sessions.leave();
    const second = await ask("second");
    expect(second.session).toBe(first.session);
    await sleep(600);
    // Before the first answer GOAWAY was sent: later requests use another session.
    expect(answers).toEqual([]);
    const third = await ask("third");
    expect(third.session).not.toBe(first.session);
    old.sessions.drain();
    await Promise.all([first.answer, second.answer, third.answer]);
    expect(answers).toEqual(["first", "second", "third"]);
    await expect.poll(() => first.session?.destroyed).toBe(true);
  });

  it("drops a request that its caller cancelled while it was held", async () => {
    const old = await startPlace(() => 100);
    const manager = new Http2SessionManager(`http://127.0.0.1:${old.port}`);
    const first = await manager.request("POST", "/", {}, {});
    first.end();
    await sleep(30);
    old.sessions.leave();
    const given = await manager.request("POST", "/", {}, {});
    given.on("error", () => {});
    await sleep(20);
    given.close(8);
    let text = "";
    for await (const chunk of first) text += String(chunk);
    expect(text).toBe("here");
    await sleep(50);
    expect(given.rstCode).toBe(8);
    expect(old.served()).toBe(1);
  });
});
