import { once } from "node:events";
import { connect, type Socket } from "node:net";
import tls from "node:tls";
import { quantile, secretKey } from "../sidecar-process.ts";

interface Compared {
  /** `http://host:port` of the forward proxy. */
  readonly proxy: string;
  readonly url: string;
  /** The authority of the origin, and that of the forward proxy. */
  readonly originCa: string;
  readonly ca: string;
  readonly seconds: number;
}

const perSecond = 1_000;
const connections = 32;

/** Sends requests at a fixed rate in turn directly and through the forward proxy, and prints what it adds. */
export async function compareLatency({ proxy, url, originCa, ca, seconds }: Compared): Promise<void> {
  const { hostname, port, host } = new URL(url);
  const direct = await openAll(async () => connect(Number(port), hostname), originCa, hostname);
  const tunneled = await openAll(() => openTunnel(proxy, host), ca, hostname);
  const took: { direct: number[]; tunneled: number[] } = { direct: [], tunneled: [] };
  for (let round = 0; round <= 3; round += 1) {
    for (const [name, sockets] of [["direct", direct] as const, ["tunneled", tunneled] as const]) {
      const all = await atRate(sockets, host, (seconds * 1_000) / 4);
      // The first round warms up.
      if (round > 0) took[name].push(...all);
    }
  }
  const at = (times: readonly number[], share: number) =>
    quantile(
      times.toSorted((a, b) => a - b),
      share,
    );
  process.stdout.write(`\n${perSecond} requests/s over ${connections} connections, TLS on both sides\n`);
  for (const share of [0.5, 0.99]) {
    const [without, through] = [at(took.direct, share), at(took.tunneled, share)];
    process.stdout.write(
      `p${share * 100}: direct ${without.toFixed(2)} ms, through ${through.toFixed(2)} ms, added ${(through - without).toFixed(2)} ms\n`,
    );
  }
  for (const socket of [...direct, ...tunneled]) socket.destroy();
}

const openAll = (open: () => Promise<Socket>, ca: string, host: string) =>
  Promise.all(
    Array.from({ length: connections }, async () => {
      const secure = tls.connect({ socket: await open(), ca, host, servername: "", ALPNProtocols: ["http/1.1"] });
      await once(secure, "secureConnect");
      return secure;
    }),
  );

async function openTunnel(proxy: string, authority: string): Promise<Socket> {
  const { hostname, port } = new URL(proxy);
  const socket = connect(Number(port), hostname);
  socket.write(
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\nProxy-Authorization: Bearer ${secretKey}\r\n\r\n`,
  );
  await once(socket, "data");
  return socket;
}

/** Each connection carries one request at a time; a late one counts from when it was due. */
async function atRate(sockets: readonly Socket[], host: string, ms: number): Promise<number[]> {
  const request = `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  const took: number[] = [];
  const free = [...sockets];
  const beganMs = performance.now();
  let sent = 0;
  while (performance.now() - beganMs < ms || free.length < sockets.length) {
    const dueMs = beganMs + (sent * 1_000) / perSecond;
    const nowMs = performance.now();
    const socket = nowMs >= dueMs && nowMs - beganMs < ms ? free.shift() : undefined;
    if (socket === undefined) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    sent += 1;
    socket.write(request);
    let text = "";
    const onData = (bytes: Buffer) => {
      text += bytes.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
      if (end === -1 || text.length < end + 4 + length) return;
      socket.off("data", onData);
      took.push(performance.now() - dueMs);
      free.push(socket);
    };
    socket.on("data", onData);
  }
  return took;
}
