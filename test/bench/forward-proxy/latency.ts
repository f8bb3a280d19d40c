import { once } from "node:events";
import { connect, type Socket } from "node:net";
import tls from "node:tls";
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
  readonly seconds: number;
}

const perSecond = 1_000;
const connections = 32;
const rounds = 5;

/** Sends requests at a fixed rate in turn directly, through nginx and through the forward proxy, and prints what each adds. */
export async function compareLatency({ proxy, url, peerUrl, originCa, ca, seconds }: Compared): Promise<void> {
  const { hostname, port, host } = new URL(url);
  const peer = new URL(peerUrl);
  const ways = [
    { name: "direct", open: opened(async () => connect(Number(port), hostname), originCa, hostname) },
    { name: "nginx", open: opened(async () => connect(Number(peer.port), peer.hostname), originCa, hostname) },
    { name: "latchkey", open: opened(() => openTunnel(proxy, host), ca, hostname) },
  ];
  const all = await Promise.all(
    ways.map(async ({ name, open }) => ({
      name,
      clients: await openAll(open),
      took: [] as number[],
      p99: [] as number[],
    })),
  );
  for (let round = 0; round <= rounds; round += 1) {
    for (const { clients, took, p99 } of all) {
      const times = await atRate(clients, host, (seconds * 1_000) / rounds);
      // The first round warms up.
      if (round === 0) continue;
      took.push(...times);
      p99.push(
        quantile(
          times.toSorted((a, b) => a - b),
          0.99,
        ),
      );
    }
  }
  const p99Of = (wanted: string) => all.find(({ name }) => name === wanted)?.p99 ?? [];
  recordFigure({
    name: `forward proxy, ${perSecond.toLocaleString("en")} requests/s, p99`,
    unit: "ms",
    better: "lower",
    own: p99Of("latchkey"),
    peers: { nginx: p99Of("nginx") },
  });
  process.stdout.write(`\n${perSecond} requests/s over ${connections} connections, TLS on both sides\n`);
  const sorted = all.map(({ name, took }) => ({ name, times: took.toSorted((a, b) => a - b) }));
  for (const share of [0.5, 0.9, 0.99]) {
    const [direct = 0] = sorted.map(({ times }) => quantile(times, share));
    const texts = sorted.map(({ name, times }) => {
      const ms = quantile(times, share);
      return `${name} ${ms.toFixed(2)} ms${name === "direct" ? "" : ` (+${(ms - direct).toFixed(2)})`}`;
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

/** Each connection carries one request at a time; a late one counts from when it was due. */
async function atRate(clients: readonly Client[], host: string, ms: number): Promise<number[]> {
  const request = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const took: number[] = [];
  const free = [...clients];
  const beganMs = performance.now();
  let sent = 0;
  let failure: Error | undefined;
  while (performance.now() - beganMs < ms || free.length < clients.length) {
    if (failure !== undefined) throw failure;
    const dueMs = beganMs + (sent * 1_000) / perSecond;
    const nowMs = performance.now();
    if (nowMs - beganMs > ms + mostMs) throw new Error(`${clients.length - free.length} requests were not answered`);
    const client = nowMs >= dueMs && nowMs - beganMs < ms ? free.shift() : undefined;
    if (client === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    sent += 1;
    exchange(client.socket, request)
      .then(async ({ endedMs, closes }) => {
        took.push(endedMs - dueMs);
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
