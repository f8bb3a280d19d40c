import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { loadAverage } from "../proxy-process.ts";
import { recordFigure } from "../score/figure.ts";
import { quantile, secretKey } from "../sidecar-process.ts";

interface Compared {
  /** `http://host:port` of the forward proxy. */
  readonly proxy: string;
  readonly url: string;
  /** nginx, which passes on to the same origin. */
  readonly peerUrl: string;
  /** The authority of the origin and of nginx, and that of the forward proxy. */
  readonly originCa: string;
  readonly ca: string;
  readonly rounds: number;
  /** The duration of each round. */
  readonly seconds: number;
}

const perSecond = 1_000;
const connections = 32;
const shares = [0.5, 0.9, 0.99] as const;

/**
 * Sends requests at a fixed rate in turn directly, through nginx and through the forward proxy, and prints what each
 * adds: by the medians of the rounds, since one round may meet anything else that the machine does.
 */
export async function compareLatency(options: Compared): Promise<void> {
  const { proxy, url, peerUrl, originCa, ca, rounds, seconds } = options;
  const { hostname, port, host } = new URL(url);
  const peer = new URL(peerUrl);
  const ways = [
    { name: "direct", open: opened(async () => connect(Number(port), hostname), originCa, hostname) },
    { name: "nginx", open: opened(async () => connect(Number(peer.port), peer.hostname), originCa, hostname) },
    { name: "latchkey", open: opened(() => openTunnel(proxy, host), ca, hostname) },
  ];
  const all = await Promise.all(
    ways.map(async ({ name, open }) => ({ name, clients: await openAll(open), rounds: [] as (readonly number[])[] })),
  );
  for (let round = 0; round <= rounds; round += 1) {
    for (const { clients, rounds: measured } of all) {
      const times = (await atRate(clients, host, seconds * 1_000)).toSorted((a, b) => a - b);
      // The first round warms up.
      if (round > 0) measured.push(shares.map((share) => quantile(times, share)));
    }
  }
  const column = (wanted: string, at: number) =>
    (all.find(({ name }) => name === wanted)?.rounds ?? []).map((times) => times[at] ?? 0).toSorted((a, b) => a - b);
  recordFigure({
    name: `forward proxy, ${perSecond.toLocaleString("en")} requests/s, p99`,
    unit: "ms",
    better: "lower",
    own: column("latchkey", 2),
    peers: { nginx: column("nginx", 2) },
  });
  process.stdout.write(`\n${perSecond} requests/s over ${connections} connections, TLS on both sides; ms, `);
  process.stdout.write(`medians of ${rounds} rounds (all rounds); load ${loadAverage()}\n`);
  for (const [at, share] of shares.entries()) {
    const direct = quantile(column("direct", at), 0.5);
    const texts = all.map(({ name }) => {
      const times = column(name, at);
      const added = name === "direct" ? "" : `+${(quantile(times, 0.5) - direct).toFixed(2)} = `;
      const range = `${(times[0] ?? 0).toFixed(2)} to ${(times.at(-1) ?? 0).toFixed(2)}`;
      return `${name} ${added}${quantile(times, 0.5).toFixed(2)} (${range})`;
    });
    process.stdout.write(`p${share * 100}: ${texts.join(", ")}\n`);
  }
  for (const { clients } of all) for (const { socket } of clients) socket.destroy();
}

/** A connection, and how to open it again: a server may close any with a response. */
interface Client {
  socket: Socket;
  readonly open: () => Promise<Socket>;
}

const opened = (open: () => Promise<Socket>, ca: string, host: string) => async (): Promise<Socket> => {
  const secure = tls.connect({ socket: await open(), ca, host, servername: "", ALPNProtocols: ["http/1.1"] });
  await once(secure, "secureConnect");
  return secure;
};

const openAll = (open: () => Promise<Socket>): Promise<Client[]> =>
  Promise.all(Array.from({ length: connections }, async () => ({ socket: await open(), open })));

async function openTunnel(proxy: string, authority: string): Promise<Socket> {
  const { hostname, port } = new URL(proxy);
  const socket = connect(Number(port), hostname);
  socket.write(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Bearer ${secretKey}\r\n\r\n`,
  );
  await once(socket, "data");
  return socket;
}

/** For so long, a request may take before the bench gives up. */
const mostMs = 10_000;

/**
 * Each connection carries one request at a time; one that had to wait for a connection counts from when it was due.
 * Sleeps between requests: if it waited actively, the origin, which shares its core, would often wait for its turn.
 */
async function atRate(clients: readonly Client[], host: string, ms: number): Promise<number[]> {
  const request = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const took: number[] = [];
  const free = [...clients];
  const beganMs = performance.now();
  let sent = 0;
  let failure: Error | undefined;
  let wasFree = true;
  while (performance.now() - beganMs < ms || free.length < clients.length) {
    if (failure !== undefined) throw failure;
    const dueMs = beganMs + (sent * 1_000) / perSecond;
    const nowMs = performance.now();
    if (nowMs - beganMs > ms + mostMs) throw new Error(`${clients.length - free.length} requests were not answered`);
    const client = nowMs >= dueMs && nowMs - beganMs < ms ? free.shift() : undefined;
    if (client === undefined) {
      if (free.length === 0) wasFree = false;
      await sleep(1);
      continue;
    }
    sent += 1;
    // The timer of this process may be late, which is no latency; a request that waited for a connection is.
    const sentMs = wasFree ? nowMs : dueMs;
    if (nowMs - dueMs < 1) wasFree = true;
    exchange(client.socket, request)
      .then(async ({ endedMs, closes }) => {
        took.push(endedMs - sentMs);
        if (closes) {
          client.socket.destroy();
          client.socket = await client.open();
        }
        free.push(client);
      })
      .catch((error: Error) => {
        failure = error;
      });
  }
  return took;
}

/** Sends a request, and returns when its response was complete, and whether the server closes the connection. */
function exchange(socket: Socket, request: string): Promise<{ readonly endedMs: number; readonly closes: boolean }> {
  return new Promise((resolve, reject) => {
    let text = "";
    const onClose = () =>
      reject(new Error(`a connection was closed instead of a response, after ${text.length} bytes`));
    const onData = (bytes: Buffer) => {
      text += bytes.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      if (end === -1) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
      if (!text.startsWith("HTTP/1.1 200 ") || Number.isNaN(length)) reject(new Error(text.slice(0, end)));
      if (text.length < end + 4 + length) return;
      const endedMs = performance.now();
      socket.off("data", onData).off("close", onClose);
      resolve({ endedMs, closes: /\r\nconnection: close/i.test(text.slice(0, end)) });
    };
    socket.on("data", onData).once("close", onClose);
    socket.write(request);
  });
}
