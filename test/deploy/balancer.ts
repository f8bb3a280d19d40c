import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Where one replica listens. */
export interface Target {
  /** What callers are led to. */
  readonly address: string;
  readonly ops: string;
}

/** Leads each new connection to a replica that says it is ready, as a Service does: whole connections, no requests. */
export interface Balancer {
  readonly address: string;
  /** Every connection that could not be made: a caller has seen each of them. */
  readonly failures: readonly string[];
  add(target: Target): void;
  /** The replica is gone, and its name with it. */
  remove(target: Target): void;
  isReady(target: Target): boolean;
}

interface BalancerOptions {
  /** How late it notices: the kubelet's period, and the time that endpoints take to reach every node. */
  readonly noticeMs: number;
  /** Called with both ends of each connection that is led on: the caller's and the replica's. */
  readonly onConnection?: (from: Socket, to: Socket) => void;
}

export async function startBalancer({ noticeMs, onConnection = () => {} }: BalancerOptions): Promise<Balancer> {
  const ready = new Map<Target, boolean>();
  const failures: string[] = [];
  const sockets = new Set<Socket>();
  let turn = 0;

  const look = setInterval(() => {
    for (const target of ready.keys()) void lookAt(target);
  }, noticeMs);

  async function lookAt(target: Target): Promise<void> {
    const isReady = await fetch(`${target.ops}/readyz`, { signal: AbortSignal.timeout(1_000) }).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (ready.has(target)) ready.set(target, isReady);
  }

  const server = createServer((from) => {
    const able = [...ready].filter(([, isReady]) => isReady).map(([target]) => target);
    turn += 1;
    const target = able[turn % able.length];
    if (target === undefined) {
      failures.push("no replica is ready");
      from.destroy();
      return;
    }
    const { hostname, port } = new URL(target.address);
    const to = connect(Number(port), hostname);
    sockets.add(from).add(to);
    from.setNoDelay();
    to.setNoDelay();
    onConnection(from, to);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      one.pipe(other);
      one.on("error", ({ message }) => {
        // One that stood may end while something is still said to it: who lost an answer by it will tell.
        if (one === to && to.connecting) failures.push(`${target.address}: ${message}`);
        other.destroy();
      });
      one.once("close", () => {
        sockets.delete(one);
        other.destroySoon();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    clearInterval(look);
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    // It listens on a port.
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    failures,
    add: (target) => void ready.set(target, false),
    remove: (target) => void ready.delete(target),
    isReady: (target) => ready.get(target) === true,
  };
}
