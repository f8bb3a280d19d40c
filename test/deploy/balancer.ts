import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** The address of one replica. */
export interface Target {
  /** The address for callers. */
  readonly address: string;
  readonly ops: string;
}

/** Forwards each new connection to a ready replica, like a Service: whole connections, not requests. */
export interface Balancer {
  readonly address: string;
  /** Connections that failed: each was visible to a caller. */
  readonly failures: readonly string[];
  add(target: Target): void;
  /** The replica is gone, and its name with it. */
  remove(target: Target): void;
  isReady(target: Target): boolean;
}

interface BalancerOptions {
  /** The delay of its view: the kubelet's period, plus the time in which endpoints reach every node. */
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
        // An open connection may end during a write: the caller that lost a response reports it.
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
