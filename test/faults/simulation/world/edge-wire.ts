import { EventEmitter } from "node:events";
import { createRequire, syncBuiltinESMExports } from "node:module";
import type { SimulatedProcess } from "./time.ts";
import { world } from "./world.ts";

/** A call of an edge, at the broker. */
export interface IncomingCall {
  readonly authorization: string;
  /** Bytes of the edge, until it ends the call. */
  readonly received: AsyncIterable<Buffer>;
  /** Aborts when the edge is gone. */
  readonly signal: AbortSignal;
  /** Sends bytes; resolves when there is room for more. */
  send(bytes: Buffer): Promise<void>;
  end(trailers: Readonly<Record<string, string>>): void;
}

interface CallServer {
  readonly process: SimulatedProcess;
  readonly accept: (call: IncomingCall) => void;
}

/** Brokers that listen, by the hosts of their URLs. */
export const callServers = new Map<string, CallServer>();
/** Open calls, so that a check can see that all have ended. */
export const openCalls = new Set<object>();

const begunCalls = new WeakMap<object, number[]>();

/** How many calls an edge has begun lately. */
export function recentCalls(edge: SimulatedProcess, withinMs: number): number {
  const recent = (begunCalls.get(edge) ?? []).filter((at) => at > world.time.now - withinMs);
  begunCalls.set(edge, recent);
  return recent.length;
}

const maxInFlight = 64;

/** Replaces HTTP/2 of the edges: frames pass over a simulated link. */
export function replaceHttp2(): void {
  const http2 = createRequire(import.meta.url)("node:http2") as { connect: unknown };
  http2.connect = (url: string) => new EdgeSession(new URL(url).host);
  syncBuiltinESMExports();
}

class EdgeSession extends EventEmitter {
  readonly #host: string;
  #stream: EdgeStream | undefined;

  constructor(host: string) {
    super();
    this.#host = host;
  }

  request(headers: Readonly<Record<string, string>>): EdgeStream {
    this.#stream = new EdgeStream(this, this.#host, headers["authorization"] ?? "");
    return this.#stream;
  }

  /** Ends when its call has. */
  close(): void {}

  destroy(): void {
    this.#stream?.destroy();
  }
}

class EdgeStream extends EventEmitter {
  destroyed = false;
  readonly writableLength = 0;
  readonly #session: EdgeSession;
  readonly #edge = world.time.process;
  readonly #server: CallServer | undefined;
  readonly #wire;
  readonly #inbox = new Inbox();
  readonly #gone = new AbortController();
  #inFlight = 0;
  #onRoom = () => {};

  constructor(session: EdgeSession, host: string, authorization: string) {
    super();
    this.#session = session;
    this.#server = callServers.get(host);
    const link = world.link(`${this.#edge?.name} to ${host}`);
    this.#wire = link.open({ onBroken: () => this.#broken("read ECONNRESET") });
    openCalls.add(this);
    world.count("calls of edges");
    if (this.#edge !== undefined) begunCalls.set(this.#edge, [...(begunCalls.get(this.#edge) ?? []), world.time.now]);
    const server = this.#server;
    if (link.state === "cut" || server === undefined || server.process.state === "dead") {
      world.time.afterIn(this.#edge, 0, () => this.#lost("connect ECONNREFUSED"));
      return;
    }
    this.#wire.toServer(() => server.accept(this.#call(authorization)), server.process);
  }

  write(bytes: Buffer): void {
    this.#toBroker(() => this.#inbox.put(bytes));
  }

  end(): void {
    this.#toBroker(() => this.#inbox.close());
  }

  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#toBroker(() => this.#leave());
    this.#wire.close();
    openCalls.delete(this);
  }

  /** The broker's process ended, and its machine says so. */
  brokerDied(): void {
    this.#broken("read ECONNRESET");
  }

  get broker(): SimulatedProcess | undefined {
    return this.#server?.process;
  }

  get edge(): SimulatedProcess | undefined {
    return this.#edge;
  }

  /** The edge's process ended. */
  edgeDied(): void {
    this.#toBroker(() => this.#leave());
    openCalls.delete(this);
  }

  #toBroker(deliver: () => void): void {
    this.#wire.toServer(deliver, this.#server?.process);
  }

  #leave(): void {
    this.#inbox.close();
    this.#gone.abort();
    this.#onRoom();
  }

  #broken(reason: string): void {
    world.time.afterIn(this.#server?.process, 0, () => this.#leave());
    world.time.afterIn(this.#edge, 0, () => this.#lost(reason));
  }

  #lost(reason: string): void {
    if (this.destroyed) return;
    this.destroyed = true;
    openCalls.delete(this);
    this.emit("error", new Error(reason));
    this.emit("close");
    this.#session.emit("close");
  }

  #call(authorization: string): IncomingCall {
    return {
      authorization,
      received: this.#inbox,
      signal: this.#gone.signal,
      send: (bytes) => this.#send(bytes),
      end: (trailers) => {
        this.#wire.toClient(() => {
          if (this.destroyed) return;
          this.emit("trailers", trailers);
          this.emit("end");
          this.destroyed = true;
          openCalls.delete(this);
          this.#wire.close();
          this.emit("close");
        }, this.#edge);
      },
    };
  }

  #send(bytes: Buffer): Promise<void> {
    this.#inFlight += 1;
    this.#wire.toClient(() => {
      if (!this.destroyed) this.emit("data", bytes);
      this.#wire.toServer(() => this.#taken(), this.#server?.process);
    }, this.#edge);
    if (this.#inFlight < maxInFlight || this.#gone.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  #taken(): void {
    this.#inFlight -= 1;
    this.#onRoom();
  }
}

/** Bytes that wait to be read. */
class Inbox implements AsyncIterable<Buffer> {
  readonly #waiting: Buffer[] = [];
  #isClosed = false;
  #wake = () => {};

  put(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (;;) {
      const next = this.#waiting.shift();
      if (next !== undefined) yield next;
      else if (this.#isClosed) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}

/** Tells the other ends of a dead process's calls. */
export function endCallsOf(process: SimulatedProcess): void {
  for (const call of [...openCalls] as EdgeStream[]) {
    if (call.broker === process) call.brokerDied();
    if (call.edge === process) call.edgeDied();
  }
}
