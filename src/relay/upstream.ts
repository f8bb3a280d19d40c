import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import tls, { type SecureContext } from "node:tls";
import { createBulkBuffers } from "./bulk.ts";
import { type Carried, Connection, type Receiver } from "./connection.ts";
import { connectedEvent, dial, failureOf } from "./dial.ts";
import type { Egress } from "./egress.ts";
import { RelayFailure } from "./failure.ts";
import { type Admitted, hrefOf, type Origin } from "./origin.ts";

/** The half of the relay that faces providers: requests in, answers out, over connections that are kept. */
export interface Upstream {
  /** The origin to send to, in place of this one. Throws `RelayFailure` for one that is none to go to. */
  admit(origin: Origin): Admitted;
  /** To an admitted origin. Throws `RelayFailure` when too many wait for it; all else is told to the receiver. */
  send(request: UpstreamRequest, receiver: Receiver): Exchange;
  /**
   * A connection of one's own to an admitted origin, for what does not end with an answer: a tunnel. Rejects with
   * `RelayFailure`; when it resolves, the socket stands and is the caller's.
   */
  open(origin: Admitted, signal: AbortSignal): Promise<Socket>;
  /** For metrics. */
  counts(): UpstreamCounts;
  /** Ends connections that carry nothing. */
  drain(): void;
  destroy(): void;
}

export interface UpstreamRequest {
  readonly origin: Admitted;
  readonly method: string;
  /** Request line and fields, with their framing and the empty line; latin1. */
  readonly head: string;
  readonly body: "none" | "length" | "chunked";
  /**
   * Not on a connection that lay idle: the provider may have closed it already, and then nobody could say whether the
   * request arrived.
   */
  readonly needsNew?: boolean;
  /** Safe to send again whatever its method, with its body, which is kept for it: of small ones. */
  readonly mayRepeat?: boolean;
}

/** A request under way. */
export interface Exchange {
  /** Something of it was given to a connection that stood: whatever comes, the provider may have acted on it. */
  readonly mayHaveArrived: boolean;
  /** Returns false when the receiver's `onDrain` will say that more can be taken. */
  write(bytes: Buffer): boolean;
  /** Of a body: its end. */
  end(trailers: readonly string[]): void;
  resume(): void;
  /** Nobody waits for it any more: its connection ends, and its receiver hears nothing. */
  abort(): void;
}

export interface UpstreamCounts {
  readonly connections: number;
  readonly idle: number;
  readonly waiting: number;
}

export interface UpstreamLimits {
  readonly connectMs: number;
  /** From the end of the request to the beginning of its answer. */
  readonly answerMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
  /** Requests that one origin carries at a time; and as many tunnels. */
  readonly perOrigin: number;
  /** Requests that wait for one of them to end. */
  readonly waitingPerOrigin: number;
}

interface UpstreamOptions {
  readonly egress: Egress;
  readonly limits: UpstreamLimits;
  /** PEM: trusted beside the usual authorities. */
  readonly extraCa: string | undefined;
  /** With each sweep: for metrics. */
  readonly onCounts?: (counts: UpstreamCounts) => void;
}

/** One look at everything, in place of a timer for each request. */
const sweepEveryMs = 250;
/** Providers drop idle connections after a minute or two, and do not say so. */
const idleForMs = 30_000;
/** Sooner than the provider said: what it drops in this moment may be what we send next. */
const idleMarginMs = 1_000;
const maxIdlePerOrigin = 256;
/** With it goes the TLS session, and the next connection begins from the beginning. */
const forgetAfterMs = 600_000;
/** Safe to send again when it is unknown whether it arrived (RFC 9110, 9.2.2), and asking for nothing but an answer. */
const repeatable = new Set(["GET", "HEAD", "OPTIONS"]);

interface Pool {
  readonly origin: Origin;
  readonly secureContext: SecureContext | undefined;
  session: Buffer | undefined;
  /** The last one used is the next one used: the others grow old and go. */
  readonly idle: { readonly connection: Connection; readonly until: number }[];
  carrying: number;
  tunnels: number;
  readonly waiting: Going[];
  usedAt: number;
}

interface Watched {
  activity: number;
  /** When it was last seen to have moved. */
  since: number;
  wasConnecting: boolean;
}

class Going implements Carried, Exchange {
  readonly receiver: Receiver;
  readonly isHead: boolean;
  readonly request: UpstreamRequest;
  isSent: boolean;
  waitingSince = 0;
  connection: Connection | undefined;
  /** To a connection that is gone. */
  wasGiven = false;
  readonly #giveUp: (going: Going) => void;
  /** What there is of the body, while it waits for a connection, or may need another one. */
  #early: Buffer[] = [];
  #trailers: readonly string[] | undefined;
  #isOver = false;

  constructor(request: UpstreamRequest, receiver: Receiver, giveUp: (going: Going) => void) {
    this.request = request;
    this.receiver = receiver;
    this.isHead = request.method === "HEAD";
    this.isSent = request.body === "none";
    this.#giveUp = giveUp;
  }

  get mayHaveArrived(): boolean {
    return this.wasGiven || this.connection?.isConnecting === false;
  }

  write(bytes: Buffer): boolean {
    const { connection } = this;
    if (bytes.length === 0 || this.#isOver) return true;
    if (connection === undefined || this.request.mayRepeat === true) this.#early.push(bytes);
    if (connection === undefined) return false;
    if (this.request.body !== "chunked") return connection.write(bytes);
    connection.cork();
    connection.write(`${bytes.length.toString(16)}\r\n`);
    connection.write(bytes);
    const takesMore = connection.write("\r\n");
    connection.uncork();
    return takesMore;
  }

  end(trailers: readonly string[]): void {
    this.isSent = true;
    this.#trailers = trailers;
    if (this.request.body !== "chunked" || this.connection === undefined) return;
    let last = "0\r\n";
    for (let i = 0; i < trailers.length; i += 2) last += `${trailers[i]}: ${trailers[i + 1]}\r\n`;
    this.connection.write(`${last}\r\n`);
  }

  /** It has waited, and goes on over this connection. */
  goOn(connection: Connection): void {
    this.connection = connection;
    connection.carry(this, this.request.head);
    const early = this.#early;
    this.#early = [];
    for (const bytes of early) this.write(bytes);
    if (this.#trailers !== undefined) this.end(this.#trailers);
  }

  resume(): void {
    this.connection?.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#giveUp(this);
  }
}

export function createUpstream({ egress, limits, extraCa, onCounts = () => {} }: UpstreamOptions): Upstream {
  const pools = new Map<string, Pool>();
  const watched = new Map<Connection, Watched>();
  const tunnels = new Set<Socket>();
  const bulk = createBulkBuffers();
  const authorities = extraCa === undefined ? undefined : [...tls.getCACertificates("default"), extraCa];
  let now = performance.now();
  let isDraining = false;
  const sweeping = setInterval(sweep, sweepEveryMs);
  sweeping.unref();

  function poolFor(origin: Admitted): Pool {
    const known = pools.get(origin.key);
    if (known !== undefined) return known;
    const { key, scheme, clientCertificate: own } = origin;
    const secureContext =
      scheme === "http"
        ? undefined
        : tls.createSecureContext({
            minVersion: "TLSv1.2",
            ...(authorities === undefined ? {} : { ca: authorities }),
            ...(own === undefined ? {} : { cert: own.certificate, key: own.privateKey }),
          });
    const pool: Pool = {
      origin,
      secureContext,
      session: undefined,
      idle: [],
      carrying: 0,
      tunnels: 0,
      waiting: [],
      usedAt: now,
    };
    pools.set(key, pool);
    return pool;
  }

  function dispatch(pool: Pool, going: Going): void {
    pool.carrying += 1;
    const idle = going.request.needsNew === true ? undefined : pool.idle.pop();
    const connection = idle?.connection ?? connect(pool);
    watched.set(connection, { activity: -1, since: now, wasConnecting: idle === undefined });
    going.goOn(connection);
    if (idle !== undefined && !going.isSent) going.receiver.onDrain();
  }

  function open(origin: Admitted, signal: AbortSignal): Promise<Socket> {
    const pool = poolFor(origin);
    if (pool.tunnels >= limits.perOrigin) return Promise.reject(overloaded(pool));
    const socket = dial({ origin, egress, secureContext: pool.secureContext, session: pool.session });
    pool.tunnels += 1;
    tunnels.add(socket);
    socket.once("close", () => {
      pool.tunnels -= 1;
      tunnels.delete(socket);
    });
    return new Promise((resolve, reject) => {
      const onAbort = () => socket.destroy(new RelayFailure("closed", "nobody waits for it any more"));
      const late = setTimeout(
        () => socket.destroy(new RelayFailure("connect_timeout", "no connection in time")),
        limits.connectMs,
      );
      const onError = (error: Error) => reject(failureOf(error, false));
      const settled = () => {
        clearTimeout(late);
        signal.removeEventListener("abort", onAbort);
      };
      socket.on("error", onError).once("close", () => {
        settled();
        reject(new RelayFailure("closed", "the provider ended the connection"));
      });
      socket.once(connectedEvent(origin), () => {
        settled();
        resolve(socket);
      });
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) onAbort();
    });
  }

  function connect(pool: Pool): Connection {
    const connection: Connection = new Connection({
      origin: pool.origin,
      egress,
      secureContext: pool.secureContext,
      session: pool.session,
      bulk,
      onSession: (session) => {
        pool.session = session;
      },
      onIdle: () => rest(pool, connection),
      onGone: (_, unanswered, failure) => gone({ pool, connection, unanswered: unanswered as Going, failure }),
    });
    return connection;
  }

  function rest(pool: Pool, connection: Connection): void {
    watched.delete(connection);
    pool.carrying -= 1;
    const saidMs = connection.idleSeconds === undefined ? idleForMs : connection.idleSeconds * 1_000 - idleMarginMs;
    const forMs = Math.min(idleForMs, saidMs);
    if (isDraining || forMs <= 0 || pool.idle.length >= maxIdlePerOrigin) {
      connection.destroy(new RelayFailure("closed", "it is not needed any more"));
    } else {
      pool.idle.push({ connection, until: now + forMs });
    }
    takeNext(pool);
  }

  interface Gone {
    readonly pool: Pool;
    readonly connection: Connection;
    readonly unanswered: Going | undefined;
    readonly failure: RelayFailure;
  }

  function gone({ pool, connection, unanswered, failure }: Gone): void {
    const at = pool.idle.findIndex((one) => one.connection === connection);
    if (at !== -1) pool.idle.splice(at, 1);
    if (watched.delete(connection)) pool.carrying -= 1;
    if (unanswered !== undefined) {
      const { request } = unanswered;
      const mayRepeat = request.mayRepeat === true || (request.body === "none" && repeatable.has(request.method));
      if (mayRepeat && failure.kind === "closed" && connection.isReused) {
        unanswered.wasGiven = true;
        // Those that lie idle are likely to be gone as well: it goes on a new one, and so is repeated once.
        for (const { connection: other } of pool.idle.splice(0)) other.destroy(failure);
        dispatch(pool, unanswered);
        return;
      }
      unanswered.wasGiven ||= !connection.isConnecting;
      unanswered.connection = undefined;
      unanswered.receiver.onFailure(failure);
    }
    takeNext(pool);
  }

  function takeNext(pool: Pool): void {
    const next = pool.carrying < limits.perOrigin ? pool.waiting.shift() : undefined;
    if (next !== undefined) dispatch(pool, next);
  }

  function giveUp(going: Going): void {
    const { connection } = going;
    going.wasGiven = going.mayHaveArrived;
    going.connection = undefined;
    if (connection !== undefined) {
      connection.abandon(going);
      return;
    }
    const { waiting } = poolFor(going.request.origin);
    const at = waiting.indexOf(going);
    if (at !== -1) waiting.splice(at, 1);
  }

  function counts(): UpstreamCounts {
    let idle = 0;
    let waiting = 0;
    for (const pool of pools.values()) {
      idle += pool.idle.length;
      waiting += pool.waiting.length;
    }
    return { connections: watched.size + idle, idle, waiting };
  }

  function sweep(): void {
    now = performance.now();
    onCounts(counts());
    for (const [connection, seen] of watched) {
      if (connection.activity !== seen.activity || connection.isConnecting !== seen.wasConnecting) {
        seen.activity = connection.activity;
        seen.wasConnecting = connection.isConnecting;
        seen.since = now;
        continue;
      }
      const failure = overdue(connection, now - seen.since);
      if (failure !== undefined) connection.destroy(failure);
    }
    for (const [key, pool] of pools) {
      if (pool.carrying + pool.tunnels + pool.waiting.length > 0) pool.usedAt = now;
      else if (now - pool.usedAt > forgetAfterMs) pools.delete(key);
      const old = pool.idle.filter(({ until }) => until < now);
      for (const { connection } of old) connection.destroy(new RelayFailure("closed", "it was idle for long"));
      while (pool.waiting[0] !== undefined && now - pool.waiting[0].waitingSince > limits.connectMs) {
        const late = pool.waiting.shift();
        late?.receiver.onFailure(overloaded(pool));
      }
    }
  }

  function overdue(connection: Connection, forMs: number): RelayFailure | undefined {
    if (connection.isConnecting) {
      return forMs > limits.connectMs ? new RelayFailure("connect_timeout", "no connection in time") : undefined;
    }
    if (connection.isAwaitingAnswer) {
      return forMs > limits.answerMs ? new RelayFailure("answer_timeout", "no answer in time") : undefined;
    }
    return forMs > limits.idleMs ? new RelayFailure("idle_timeout", "nothing came, or was taken, for long") : undefined;
  }

  const overloaded = ({ origin }: Pool) =>
    new RelayFailure("overloaded", `as many requests as may are under way to ${origin.host}, and wait for it`);

  return {
    admit(asked) {
      const origin = egress.admit(asked);
      return { ...origin, key: poolKey(origin) };
    },
    open,
    send(request, receiver) {
      const pool = poolFor(request.origin);
      const going = new Going(request, receiver, giveUp);
      if (pool.carrying < limits.perOrigin) {
        dispatch(pool, going);
      } else if (pool.waiting.length < limits.waitingPerOrigin) {
        going.waitingSince = now;
        pool.waiting.push(going);
      } else {
        throw overloaded(pool);
      }
      return going;
    },
    counts,
    drain() {
      isDraining = true;
      for (const pool of pools.values()) {
        for (const { connection } of [...pool.idle]) connection.destroy(new RelayFailure("closed", "draining"));
      }
    },
    destroy() {
      clearInterval(sweeping);
      this.drain();
      for (const connection of [...watched.keys()]) connection.destroy(new RelayFailure("closed", "stopping"));
      for (const socket of tunnels) socket.destroy();
    },
  };
}

/** Who brings a certificate of its own shares connections with nobody else. */
function poolKey(origin: Origin): string {
  const { clientCertificate: own } = origin;
  if (own === undefined) return hrefOf(origin);
  const digest = createHash("sha256").update(own.certificate).update("\0").update(own.privateKey).digest("base64url");
  return `${hrefOf(origin)} ${digest}`;
}
