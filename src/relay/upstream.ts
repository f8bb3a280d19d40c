import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import tls, { type SecureContext } from "node:tls";
import { createBulkBuffers } from "./bulk.ts";
import { type Carried, Connection, type Receiver } from "./connection.ts";
import { connectedEvent, dial, failureOf, wantsHttp2 } from "./dial.ts";
import type { Egress } from "./egress.ts";
import type { Exchange, UpstreamRequest } from "./exchange.ts";
import { RelayFailure } from "./failure.ts";
import { type Admitted, hrefOf, type Origin } from "./origin.ts";
import { createSessions, type Streamed } from "./sessions.ts";

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
/** Of a body that has gone over HTTP/2: kept for as long as the provider may say that it has not looked at it. */
const maxKeptBytes = 16 * 1024;
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
  /** It takes nothing but HTTP/2: until it says otherwise, everything goes to it so. */
  wantsHttp2: boolean;
  usedAt: number;
}

interface Watched {
  activity: number;
  /** When it was last seen to have moved. */
  since: number;
  wasConnecting: boolean;
}

/** Without TLS nothing is offered: there, only who must speak HTTP/2 does. */
const goesOverHttp2 = ({ protocol, origin }: UpstreamRequest): boolean =>
  protocol === "http2" || (protocol === "any" && origin.scheme === "https");

const isRepeatable = ({ mayRepeat, body, method }: UpstreamRequest): boolean =>
  mayRepeat === true || (body === "none" && repeatable.has(method));

/** What a request that is under way may ask of those who send it. */
interface Routes {
  giveUp(going: Going): void;
  /** Over HTTP/1.1, though it would have gone over HTTP/2. */
  fallBack(going: Going): void;
}

class Going implements Carried, Exchange, Streamed {
  readonly receiver: Receiver;
  readonly isHead: boolean;
  readonly request: UpstreamRequest;
  isSent: boolean;
  waitingSince = 0;
  connection: Connection | undefined;
  /** To a connection that is gone. */
  wasGiven = false;
  /** It goes over HTTP/2. */
  #stream: Exchange | undefined;
  readonly #routes: Routes;
  /** What there is of the body, while it waits for a connection, or may need another one. */
  #early: Buffer[] = [];
  /** How much of it went over HTTP/2; more than is kept, and it is not kept. */
  #streamedBytes = 0;
  #startedOver = false;
  #trailers: readonly string[] | undefined;
  #isOver = false;

  constructor(request: UpstreamRequest, receiver: Receiver, routes: Routes) {
    this.request = request;
    this.receiver = receiver;
    this.isHead = request.method === "HEAD";
    this.isSent = request.body === "none";
    this.#routes = routes;
  }

  get mayHaveArrived(): boolean {
    return this.wasGiven || (this.#stream?.mayHaveArrived ?? this.connection?.isConnecting === false);
  }

  write(bytes: Buffer): boolean {
    const { connection } = this;
    if (bytes.length === 0 || this.#isOver) return true;
    if (this.#stream !== undefined) {
      this.#keep(bytes);
      return this.#stream.write(bytes);
    }
    if (connection === undefined || connection.isConnecting || this.request.mayRepeat === true) this.#early.push(bytes);
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
    if (this.#stream !== undefined) {
      this.#stream.end(trailers);
      return;
    }
    if (trailers.length > 0 && this.request.body === "length") {
      this.abort();
      this.receiver.onFailure(
        new RelayFailure("no_http2", "what follows a body of a known length can go over HTTP/2 alone"),
      );
    }
    if (this.request.body !== "chunked" || this.connection === undefined) return;
    let last = "0\r\n";
    for (let i = 0; i < trailers.length; i += 2) last += `${trailers[i]}: ${trailers[i + 1]}\r\n`;
    this.connection.write(`${last}\r\n`);
  }

  /** It has waited, and goes on over this connection. */
  goOn(connection: Connection): void {
    this.connection = connection;
    connection.carry(this, this.request.head);
    this.#writeEarly();
  }

  stood(): void {
    if (this.request.mayRepeat !== true) this.#early = [];
  }

  /** The same, over HTTP/2. */
  goOver(stream: Exchange): void {
    this.#stream = stream;
    const isWaiting = this.#early.length > 0 && !this.isSent;
    this.#streamedBytes = 0;
    this.#writeEarly();
    if (isWaiting) this.receiver.onDrain();
  }

  fallBack(): void {
    this.#stream = undefined;
    this.#routes.fallBack(this);
  }

  startOver(unprocessed: boolean): boolean {
    const isWhole = this.#streamedBytes <= maxKeptBytes || this.request.mayRepeat === true;
    const may = !this.#startedOver && isWhole && (unprocessed || isRepeatable(this.request));
    if (!may || this.#isOver) return false;
    this.#startedOver = true;
    if (!unprocessed) this.wasGiven = true;
    this.#stream = undefined;
    return true;
  }

  resume(): void {
    if (this.#stream === undefined) this.connection?.resume();
    else this.#stream.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#stream === undefined) {
      this.#routes.giveUp(this);
    } else {
      this.wasGiven = this.mayHaveArrived;
      this.#stream.abort();
    }
  }

  #writeEarly(): void {
    const early = this.#early;
    this.#early = [];
    for (const bytes of early) this.write(bytes);
    if (this.#trailers !== undefined) this.end(this.#trailers);
  }

  #keep(bytes: Buffer): void {
    this.#streamedBytes += bytes.length;
    if (this.request.mayRepeat === true) this.#early.push(bytes);
    // A copy: it may be a small part of a large buffer.
    else if (this.#streamedBytes <= maxKeptBytes) this.#early.push(Buffer.from(bytes));
    else this.#early = [];
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
  const sessions = createSessions({ egress, limits, secureContextOf: (origin) => poolFor(origin).secureContext });
  const routes: Routes = {
    giveUp,
    fallBack(going) {
      const pool = poolFor(going.request.origin);
      pool.wantsHttp2 = false;
      orTell(going, () => queue(pool, going));
    },
  };
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
      wantsHttp2: false,
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

  function queue(pool: Pool, going: Going): void {
    if (pool.carrying < limits.perOrigin) {
      dispatch(pool, going);
    } else if (pool.waiting.length < limits.waitingPerOrigin) {
      going.waitingSince = now;
      pool.waiting.push(going);
    } else {
      throw overloaded(pool);
    }
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
      if (connection.isConnecting && wantsHttp2(failure) && !pool.wantsHttp2) {
        pool.wantsHttp2 = true;
        unanswered.connection = undefined;
        orTell(unanswered, () => sessions.carry(unanswered));
        return;
      }
      if (isRepeatable(unanswered.request) && failure.kind === "closed" && connection.isReused) {
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

  /** Of a request that is under way: there is nobody to throw to, and somebody waits to be told. */
  function orTell(going: Going, send: () => void): void {
    try {
      send();
    } catch (error) {
      going.receiver.onFailure(failureOf(error as Error, false));
    }
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
    if (at === -1) sessions.giveUp(going);
    else waiting.splice(at, 1);
  }

  function counts(): UpstreamCounts {
    let idle = 0;
    let waiting = 0;
    for (const pool of pools.values()) {
      idle += pool.idle.length;
      waiting += pool.waiting.length;
    }
    const streamed = sessions.counts();
    idle += streamed.idle;
    return { connections: watched.size + streamed.carrying + idle, idle, waiting: waiting + streamed.waiting };
  }

  function sweep(): void {
    now = performance.now();
    onCounts(counts());
    sessions.sweep(now);
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
      const going = new Going(request, receiver, routes);
      if (pool.wantsHttp2 || goesOverHttp2(request)) sessions.carry(going);
      else queue(pool, going);
      return going;
    },
    counts,
    drain() {
      isDraining = true;
      sessions.drain();
      for (const pool of pools.values()) {
        for (const { connection } of [...pool.idle]) connection.destroy(new RelayFailure("closed", "draining"));
      }
    },
    destroy() {
      clearInterval(sweeping);
      this.drain();
      sessions.destroy();
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
