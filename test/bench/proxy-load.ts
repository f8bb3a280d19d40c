import { connect, type Socket } from "node:net";
import { cores, pinnedTo } from "./proxy-process.ts";
import { quantile } from "./sidecar-process.ts";
import { hasWrk, type Outcome, runWrk } from "./wrk.ts";

/** The address and the requests of a load: each request uses the next connection. */
export interface Target {
  readonly port: number;
  readonly path: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly ids: readonly string[];
}

interface Asking {
  readonly connections: number;
  readonly seconds: number;
  readonly folder: string;
}

/** Sends as many requests as possible over a number of connections: by wrk or, without it, by this process. */
export async function loadWith(target: Target, asking: Asking): Promise<Outcome> {
  return hasWrk ? byWrk(target, asking) : closedLoop(target, asking);
}

async function byWrk({ port, path, fields, ids }: Target, asking: Asking): Promise<Outcome> {
  const headers = fields.map(([name, value]) => `wrk.headers["${name}"] = "${value}"`).join("\n");
  const script = `${headers}
local ids, made, at = { "${ids.join('", "')}" }, {}, 0
init = function(args)
  for i, id in ipairs(ids) do
    wrk.headers["Connection-Id"] = id
    made[i] = wrk.format("GET", "${path}")
  end
end
request = function()
  at = at % #made + 1
  return made[at]
end`;
  return runWrk({ ...asking, port, script, pinned: pinnedTo(cores.load) });
}

/** A kept connection for one request at a time. The response has a Content-Length, or the caller reads it. */
interface Line {
  readonly socket: Socket;
  ask(bytes: string): Promise<void>;
}

export async function openLine(port: number): Promise<Line> {
  const socket = connect({ port, host: "127.0.0.1" });
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  socket.setNoDelay(true);
  let head = "";
  let left = 0;
  let settle: { readonly done: () => void; readonly fail: (error: Error) => void } | undefined;
  const fail = () => settle?.fail(new Error("the connection ended"));
  socket.on("error", fail).on("close", fail);
  socket.on("data", (chunk: Buffer) => {
    if (left === 0) {
      head += chunk.toString("latin1");
      const end = head.indexOf("\r\n\r\n");
      if (end === -1) return;
      const [, status] = head.split(" ", 2);
      left = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0) - (head.length - end - 4);
      head = "";
      if (status !== "200") settle?.fail(new Error(`status ${status}`));
    } else {
      left -= chunk.length;
    }
    if (left === 0) settle?.done();
  });
  return {
    socket,
    ask(bytes) {
      return new Promise((resolve, reject) => {
        settle = { done: resolve, fail: reject };
        socket.write(bytes, "latin1");
      });
    },
  };
}

export function requestFor({ path, fields, ids }: Target, i: number, more = ""): string {
  const own = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const method = more === "" ? "GET" : "POST";
  return `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${own}Connection-Id: ${ids[i % ids.length]}\r\n${more}\r\n`;
}

async function closedLoop(target: Target, { connections, seconds }: Asking): Promise<Outcome> {
  const requests = target.ids.map((_, i) => requestFor(target, i));
  const lines = await openMany(connections, () => openLine(target.port));
  const times: number[] = [];
  let failed = 0;
  const since = performance.now();
  await Promise.all(
    lines.map(async ({ ask }, i) => {
      for (let at = i; performance.now() - since < seconds * 1_000; at += connections) {
        const asked = performance.now();
        await ask(requests[at % requests.length] ?? "").catch(() => {
          failed += 1;
        });
        times.push(performance.now() - asked);
      }
    }),
  );
  for (const { socket } of lines) socket.destroy();
  return outcomeOf(times, { seconds: (performance.now() - since) / 1_000, failed });
}

export interface OpenLoop {
  readonly perSecond: number;
  readonly seconds: number;
  /** Ends the load early: nothing more is sent. */
  readonly signal?: AbortSignal;
}

/** One call of an open loop: its start by the wall clock, and its duration. */
export interface Call {
  readonly sentAtMs: number;
  readonly tookMs: number;
}

/**
 * Sends a fixed number of requests a second, however long responses take: each starts when due, over a free connection.
 */
export async function openLoop(
  target: Target,
  { perSecond, seconds, signal }: OpenLoop,
): Promise<Outcome & { readonly calls: readonly Call[] }> {
  const requests = target.ids.map((_, i) => requestFor(target, i));
  const free = await openMany(32, () => openLine(target.port));
  const all = [...free];
  const calls: Call[] = [];
  const underWay: Promise<void>[] = [];
  let failed = 0;
  const since = performance.now();
  const askOne = async (i: number) => {
    const line = free.pop() ?? (await openLine(target.port));
    if (!all.includes(line)) all.push(line);
    const asked = performance.now();
    try {
      await line.ask(requests[i % requests.length] ?? "");
      calls.push({ sentAtMs: performance.timeOrigin + asked, tookMs: performance.now() - asked });
      free.push(line);
    } catch {
      failed += 1;
    }
  };
  for (let sent = 0; sent < perSecond * seconds && signal?.aborted !== true; ) {
    const due = Math.min(perSecond * seconds, ((performance.now() - since) / 1_000) * perSecond);
    for (; sent < due; sent += 1) underWay.push(askOne(sent));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(underWay);
  const took = (performance.now() - since) / 1_000;
  for (const { socket } of all) socket.destroy();
  const times = calls.map(({ tookMs }) => tookMs);
  return { ...outcomeOf(times, { seconds: took, failed }), calls };
}

function outcomeOf(times: readonly number[], rest: Pick<Outcome, "seconds" | "failed">): Outcome {
  const sorted = times.toSorted((a, b) => a - b);
  return { requests: times.length, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99), ...rest };
}

/** A few at a time, so that no backlog overflows. */
export async function openMany<T>(count: number, open: (i: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  for (let at = 0; at < count; at += 50) {
    const some = Array.from({ length: Math.min(50, count - at) }, (_, i) => open(at + i));
    made.push(...(await Promise.all(some)));
  }
  return made;
}

/** Returns the seconds until the last byte. Read into one buffer, over and over: the client is to be no limit. */
export function download(target: Target, bytes: number): Promise<number> {
  const since = performance.now();
  const buffer = Buffer.allocUnsafeSlow(512 * 1024);
  return new Promise((resolve, reject) => {
    let left: number | undefined;
    const socket = connect({
      port: target.port,
      host: "127.0.0.1",
      onread: {
        buffer,
        callback(length) {
          if (left === undefined) {
            const head = buffer.toString("latin1", 0, length);
            const end = head.indexOf("\r\n\r\n");
            if (!head.startsWith("HTTP/1.1 200") || end === -1) {
              reject(new Error(`a download was answered: ${head.slice(0, 60)}`));
              return false;
            }
            left = bytes - (length - end - 4);
          } else {
            left -= length;
          }
          if (left === 0) {
            resolve((performance.now() - since) / 1_000);
            socket.destroy();
          }
          return true;
        },
      },
    });
    socket.on("error", reject).on("close", () => reject(new Error("a download was cut")));
    socket.write(requestFor(target, 0));
  });
}

/** Returns the seconds until the answer. */
export async function upload(target: Target, bytes: number): Promise<number> {
  const { socket, ask } = await openLine(target.port);
  const block = Buffer.alloc(256 * 1024, "x");
  const since = performance.now();
  const answered = ask(requestFor(target, 0, `Content-Type: application/octet-stream\r\nContent-Length: ${bytes}\r\n`));
  let isOver = false;
  const over = answered.finally(() => {
    isOver = true;
  });
  over.catch(() => {});
  for (let left = bytes; left > 0 && !isOver; left -= block.length) {
    if (!socket.write(left < block.length ? block.subarray(0, left) : block)) {
      await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), over]);
    }
  }
  await over;
  socket.destroy();
  return (performance.now() - since) / 1_000;
}

/** Resolves when the first event is there; the stream stays open. */
export function openStream(target: Target, i: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: target.port, host: "127.0.0.1" });
    let text = "";
    socket.on("error", reject).on("close", () => reject(new Error(`a stream ended: ${text.slice(0, 60)}`)));
    socket.on("data", (chunk: Buffer) => {
      text = (text + chunk.toString("latin1")).slice(-2_000);
      if (text.includes("data: {}")) resolve(socket);
    });
    socket.write(requestFor(target, i));
  });
}
