import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { durationMs, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { randomId } from "../base/ids.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import type { BrokerCredentialsSource } from "../config/edges/broker-credentials.ts";
import { EdgeHeartbeatSchema, EdgeHeldSchema, EdgeHelloSchema, type EdgeWelcome } from "../gen/latchkey/v1/edge_pb.ts";
import { brokerTrouble } from "./broker-trouble.ts";
import { type FollowStream, type FromBroker, openFollowStream, type ToBroker } from "./follow-stream.ts";
import { type HeldVersions, heldParts, maxFurtherParts } from "./held-parts.ts";

interface BrokerLinkOptions {
  readonly urls: readonly string[];
  /** Read for each connection: files may be replaced at any time. */
  readonly credentials: Pick<BrokerCredentialsSource, "read">;
  readonly environment: string;
  readonly held: () => HeldVersions;
  readonly policiesVersion: () => Uint8Array;
  readonly hasForwardProxy: boolean;
  /** A broker has answered: from now on, all messages are its own. */
  readonly onWelcome: (welcome: LinkWelcome) => void;
  readonly onMessage: (message: FromBroker) => void;
  /** How far the broker's clock is ahead of ours, whenever that has changed. */
  readonly onClock: (aheadMs: number) => void;
  /** There is no broker any more. */
  readonly onAway: () => void;
  readonly world: World;
}

export interface LinkWelcome {
  readonly environment: string;
  readonly maxConnections: number;
  /** What the broker has read of what we have. */
  readonly offered: readonly HeldVersions[];
  /** It answers questions of addresses and certificates. */
  readonly servesRoutes: boolean;
}

/** Limits connecting, and the wait for the first message. */
const welcomeMs = 5_000;
/** A broker's edges do not come to the others all at once. */
const firstDelayMs = 150;
const longestDelayMs = 10_000;
const againMs = 1_000;
const defaultHeartbeatMs = 10_000;
/** After so many, the broker counts as gone. */
const missedHeartbeats = 3;
/** A stream that ends earlier counts as a failure: the next one waits longer. */
const shortLifeMs = 5_000;
/** A clock's difference below this may as well be the time of the message. */
const leastAheadMs = 2_000;

/** Part of a token's remaining time after which its stream is replaced. */
const renewalShare = 0.9;
const leastRenewalMs = 10_000;
const longestTimerMs = 2 ** 31 - 1;

interface Attempt {
  readonly url: string;
  readonly stream: FollowStream;
  readonly timeout: NodeJS.Timeout;
  /** What the greeting and the messages after it named. */
  readonly offered: readonly HeldVersions[];
  /** When its token ends. */
  readonly endsAtMs: number | undefined;
}

interface LostStream {
  readonly url: string;
  readonly reason: string;
}

/** Keeps one stream to one of the brokers. */
export class BrokerLink {
  readonly #options: BrokerLinkOptions;
  readonly #edgeId = randomId();
  #active: { readonly url: string; readonly stream: FollowStream } | undefined;
  /** A stream without a welcome; beside the active one, its successor. */
  #attempt: Attempt | undefined;
  #waiting: NodeJS.Timeout | undefined;
  #beating: NodeJS.Timeout | undefined;
  #heardAt = 0;
  /** The same by the monotonic clock. */
  #heardTick = 0;
  /** When the active stream began, by the monotonic clock. */
  #welcomedTick = 0;
  /** Streams in a row that ended soon. */
  #shortLives = 0;
  #aheadMs = 0;
  /** What the last message with a time said of it. */
  #lastAheadMs = 0;
  #sentSince = false;
  #heartbeatMs = defaultHeartbeatMs;
  #failures = 0;
  #order: string[] = [];
  #trouble: string | undefined;
  #isClosed = false;
  #renewing: NodeJS.Timeout | undefined;
  /** Credentials have changed while they were used to connect. */
  #isRenewalDue = false;

  constructor(options: BrokerLinkOptions) {
    this.#options = options;
    this.#hear();
    options.world.metrics.edgeConnected.set(0);
    this.#connect();
  }

  /** Sends a message if there is a broker; returns whether there is. */
  send(message: ToBroker): boolean {
    if (this.#active === undefined) return false;
    this.#active.stream.send(message);
    this.#sentSince = true;
    return true;
  }

  /** Since when there has been no broker, by the wall clock; undefined while there is one. */
  awaySinceMs(): number | undefined {
    return this.#active === undefined ? this.#heardAt : undefined;
  }

  /** For how long nothing was heard, beyond the time for which a connected broker may be silent. */
  silentMs(): number {
    const ms = this.#unheardMs();
    return this.#active === undefined ? ms : ms - missedHeartbeats * this.#heartbeatMs;
  }

  /** Why there is no broker. */
  lastTrouble(): string | undefined {
    return this.#trouble;
  }

  /** Connects again with the credentials as they are now, and keeps the stream until then. */
  renew(): void {
    if (this.#attempt === undefined) this.#connectAfter(Math.random() * firstDelayMs);
    else this.#isRenewalDue = true;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#renewing);
    clearTimeout(this.#waiting);
    clearInterval(this.#beating);
    clearTimeout(this.#attempt?.timeout);
    this.#attempt?.stream.close();
    this.#active?.stream.close();
  }

  #nextUrl(): string {
    const { urls } = this.#options;
    if (this.#order.length === 0) this.#order = shuffled(urls);
    // The broker that is about to stop comes last.
    const at = this.#order.findIndex((url) => url !== this.#active?.url);
    const [url = urls[0] ?? ""] = this.#order.splice(Math.max(0, at), 1);
    return url;
  }

  #connectAfter(delayMs: number): void {
    clearTimeout(this.#waiting);
    this.#waiting = setTimeout(() => this.#connect(), delayMs);
  }

  #connect(): void {
    if (this.#isClosed || this.#attempt !== undefined) return;
    const { credentials, environment, held } = this.#options;
    const url = this.#nextUrl();
    let stream: FollowStream;
    let endsAtMs: number | undefined;
    try {
      const { tls, secret, ...times } = credentials.read();
      endsAtMs = times.endsAtMs;
      stream = openFollowStream({
        url,
        tls,
        key: secret,
        onMessage: (message) => this.#received(stream, message),
        onEnd: (reason) => this.#ended(stream, { url, reason }),
      });
    } catch (error) {
      // A file is missing, or files do not fit: they may be in the middle of being replaced.
      this.#failed({ url, reason: brokerTrouble(error as Error) });
      return;
    }
    const timeout = setTimeout(() => {
      stream.close();
      this.#attempt = undefined;
      this.#failed({ url, reason: "no answer in time" });
    }, welcomeMs);
    const [first, ...rest] = heldParts(held());
    const more = rest.slice(0, maxFurtherParts);
    this.#attempt = { url, stream, timeout, offered: [first, ...more], endsAtMs };
    const self = {
      edgeId: this.#edgeId,
      host: hostname(),
      version,
      environment,
      appliesLimits: true,
      appliesTools: true,
      appliesPolicies: true,
      hasForwardProxy: this.#options.hasForwardProxy,
    };
    const hello = { ...self, ...first, policiesVersion: this.#options.policiesVersion(), heldMessages: more.length };
    stream.send({ case: "hello", value: create(EdgeHelloSchema, hello) });
    for (const part of more) stream.send({ case: "held", value: create(EdgeHeldSchema, part) });
  }

  #received(stream: FollowStream, message: FromBroker): void {
    if (stream === this.#attempt?.stream) {
      if (message.case === "welcome") this.#welcomed(this.#attempt, message.value);
      return;
    }
    if (stream !== this.#active?.stream) return;
    const { world, onMessage } = this.#options;
    // After a pause of this process, old messages wait, and the stream may be over: they do not say what is so now.
    if (this.#isSilent()) {
      this.#giveUp();
      return;
    }
    this.#hear();
    if (message.case === "leave") {
      world.log.info("the broker is about to stop; connecting to another one", { broker: this.#active.url });
      // A shared address may lead to the same broker again, until its load balancer has noticed.
      const isAgain = performance.now() - this.#welcomedTick < againMs;
      this.#connectAfter(isAgain ? againMs : Math.random() * firstDelayMs);
    } else if (message.case !== "heartbeat") onMessage(message);
    else this.#compareClocks(message.value.now);
  }

  #welcomed({ url, stream, timeout, offered, endsAtMs }: Attempt, welcome: EdgeWelcome): void {
    const { world, onWelcome } = this.#options;
    clearTimeout(timeout);
    this.#attempt = undefined;
    this.#active?.stream.close();
    this.#active = { url, stream };
    this.#hear();
    this.#welcomedTick = this.#heardTick;
    this.#failures = 0;
    this.#trouble = undefined;
    this.#order = [];
    this.#keepAlive(welcome.heartbeatEvery === undefined ? defaultHeartbeatMs : durationMs(welcome.heartbeatEvery));
    world.metrics.edgeConnected.set(1);
    world.metrics.edgeStreams.inc();
    world.log.info("connected to a broker", { broker: url, broker_id: welcome.brokerId });
    this.#compareClocks(welcome.now, true);
    this.#renewBefore(endsAtMs === undefined ? undefined : endsAtMs - this.#aheadMs);
    onWelcome({
      environment: welcome.environment,
      maxConnections: welcome.maxConnections,
      // A broker of an earlier version reads the greeting only.
      offered: offered.slice(0, 1 + welcome.heldMessages),
      servesRoutes: welcome.servesRoutes,
    });
  }

  /**
   * Another broker may have another time, and each clock may be set while the stream lives. A single heartbeat proves
   * nothing: it may come late.
   */
  #compareClocks(brokers: Timestamp | undefined, isFirst = false): void {
    if (brokers === undefined) return;
    const aheadMs = timestampMs(brokers) - this.#options.world.now();
    const isSure = isFirst || Math.abs(aheadMs - this.#lastAheadMs) < leastAheadMs;
    this.#lastAheadMs = aheadMs;
    if (!isSure || Math.abs(aheadMs - this.#aheadMs) < leastAheadMs) return;
    this.#aheadMs = Math.abs(aheadMs) < leastAheadMs ? 0 : aheadMs;
    this.#options.onClock(this.#aheadMs);
  }

  /** Replaces the stream before the broker ends it with its token, which has a successor in the file by then. */
  #renewBefore(endsAtMs: number | undefined): void {
    clearTimeout(this.#renewing);
    if (this.#isRenewalDue) this.#connectAfter(Math.random() * firstDelayMs);
    this.#isRenewalDue = false;
    if (endsAtMs === undefined) return;
    const remainingMs = endsAtMs - this.#options.world.now();
    const inMs = Math.max(leastRenewalMs, remainingMs * renewalShare);
    this.#renewing = setTimeout(() => this.renew(), Math.min(inMs, longestTimerMs)).unref();
  }

  #ended(stream: FollowStream, { url, reason }: LostStream): void {
    if (stream === this.#attempt?.stream) {
      clearTimeout(this.#attempt.timeout);
      this.#attempt = undefined;
      this.#failed({ url, reason });
    } else if (stream === this.#active?.stream) {
      const { world, onAway } = this.#options;
      world.log.warn("lost the broker", { broker: url, reason });
      this.#trouble = reason;
      this.#active = undefined;
      this.#shortLives = performance.now() - this.#welcomedTick < shortLifeMs ? this.#shortLives + 1 : 0;
      clearInterval(this.#beating);
      world.metrics.edgeConnected.set(0);
      onAway();
      // A broker that welcomes edges and cannot serve them must not be asked again and again.
      const longest = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(this.#shortLives, 10));
      if (this.#attempt === undefined) this.#connectAfter(Math.random() * longest);
    }
  }

  #failed({ url, reason }: LostStream): void {
    const { urls, world } = this.#options;
    this.#failures += 1;
    const failures = this.#failures;
    this.#trouble = reason;
    // One line for each round, so that a long outage does not fill the log.
    if (failures % urls.length === 0) {
      const what =
        this.#active === undefined ? "no broker can be reached" : "the stream to a broker cannot be replaced";
      world.log.warn(`${what}; retrying`, { broker: url, reason, failures });
    }
    const round = Math.ceil(failures / urls.length);
    const longest = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(round, 10));
    this.#connectAfter(this.#order.length > 0 ? Math.random() * firstDelayMs : longest * (0.5 + Math.random() / 2));
  }

  #hear(): void {
    this.#heardAt = this.#options.world.now();
    this.#heardTick = performance.now();
  }

  /** The wall clock counts the time of a suspended machine, and may be set back; the other one neither. */
  #unheardMs(): number {
    return Math.max(this.#options.world.now() - this.#heardAt, performance.now() - this.#heardTick);
  }

  #isSilent(): boolean {
    return this.#unheardMs() > missedHeartbeats * this.#heartbeatMs;
  }

  #giveUp(): void {
    if (this.#active === undefined) return;
    const { url, stream } = this.#active;
    stream.close();
    this.#ended(stream, { url, reason: "nothing was heard from the broker" });
  }

  #keepAlive(everyMs: number): void {
    clearInterval(this.#beating);
    this.#heartbeatMs = everyMs;
    const beat = () => {
      if (this.#active === undefined) return;
      if (this.#isSilent()) {
        this.#giveUp();
        return;
      }
      if (!this.#sentSince) this.send({ case: "heartbeat", value: create(EdgeHeartbeatSchema) });
      this.#sentSince = false;
    };
    this.#beating = setInterval(beat, Math.max(50, everyMs * 0.75));
  }
}

function shuffled(urls: readonly string[]): string[] {
  const all = urls.map((url) => ({ url, at: Math.random() }));
  return all.sort((one, other) => one.at - other.at).map(({ url }) => url);
}
