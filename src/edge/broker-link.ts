import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { durationMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { randomId } from "../base/ids.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import {
  type EdgeHello,
  EdgeHeartbeatSchema,
  EdgeHelloSchema,
  type EdgeWelcome,
} from "../gen/latchkey/v1/edge_pb.ts";
import { type BrokerTls, type FollowStream, type FromBroker, openFollowStream, type ToBroker } from "./follow-stream.ts";

/** Keeps one stream to one of the brokers. */
export interface BrokerLink {
  /** Sends a message if there is a broker; returns whether there is. */
  send(message: ToBroker): boolean;
  /** Since when there has been no broker, by the wall clock; undefined while there is one. */
  awaySinceMs(): number | undefined;
  /** Why there is no broker. */
  lastTrouble(): string | undefined;
  close(): void;
}

export type HeldVersions = Pick<EdgeHello, "connections" | "keys" | "integrations" | "providers">;

interface BrokerLinkOptions {
  readonly urls: readonly string[];
  readonly tls: BrokerTls;
  /** Read for each connection: a key in a file may be replaced at any time. */
  readonly key: () => string | undefined;
  readonly environment: string;
  readonly held: () => HeldVersions;
  /** A broker has answered: from now on, all messages are its own. */
  readonly onWelcome: (welcome: LinkWelcome) => void;
  readonly onMessage: (message: FromBroker) => void;
  /** There is no broker any more. */
  readonly onAway: () => void;
  readonly world: World;
}

export interface LinkWelcome {
  readonly environment: string;
  readonly maxConnections: number;
  /** How far the broker's clock is ahead of ours. */
  readonly aheadMs: number;
}

/** Limits connecting, and the wait for the first message. */
const welcomeMs = 5_000;
/** A broker's edges do not come to the others all at once. */
const firstDelayMs = 150;
const longestDelayMs = 10_000;
const againMs = 1_000;
const defaultHeartbeatMs = 10_000;
/** A clock's difference below this may as well be the time of the message. */
const leastAheadMs = 2_000;

interface Attempt {
  readonly url: string;
  readonly stream: FollowStream;
  readonly timeout: NodeJS.Timeout;
}

export function openBrokerLink(options: BrokerLinkOptions): BrokerLink {
  const { urls, tls, key, environment, held, onWelcome, onMessage, onAway, world } = options;
  const { log, metrics } = world;
  const edgeId = randomId();
  const startedAt = world.now();
  let active: { readonly url: string; readonly stream: FollowStream } | undefined;
  /** A stream without a welcome; beside the active one, its successor. */
  let attempt: Attempt | undefined;
  let waiting: NodeJS.Timeout | undefined;
  let beating: NodeJS.Timeout | undefined;
  let heardAt = startedAt;
  let welcomedAt = 0;
  let sentSince = false;
  let failures = 0;
  let order: string[] = [];
  let trouble: string | undefined;
  let isClosed = false;
  metrics.edgeConnected.set(0);

  function nextUrl(): string {
    if (order.length === 0) order = shuffled(urls);
    // The broker that we leave, or that has just failed, comes last.
    const at = order.findIndex((url) => url !== active?.url);
    const [url = urls[0] ?? ""] = order.splice(Math.max(0, at), 1);
    return url;
  }

  function connectAfter(delayMs: number): void {
    clearTimeout(waiting);
    waiting = setTimeout(connect, delayMs);
  }

  function connect(): void {
    if (isClosed || attempt !== undefined) return;
    const url = nextUrl();
    let token: string | undefined;
    try {
      token = key();
    } catch (error) {
      failed(url, (error as Error).message);
      return;
    }
    const stream = openFollowStream({
      url,
      tls,
      key: token,
      onMessage: (message) => received(stream, message),
      onEnd: (reason) => ended(stream, { url, reason }),
    });
    const timeout = setTimeout(() => {
      stream.close();
      attempt = undefined;
      failed(url, "no answer in time");
    }, welcomeMs);
    attempt = { url, stream, timeout };
    stream.send({
      case: "hello",
      value: create(EdgeHelloSchema, { edgeId, host: hostname(), version, environment, ...held() }),
    });
  }

  function received(stream: FollowStream, message: FromBroker): void {
    if (stream === attempt?.stream) {
      if (message.case === "welcome") welcomed(attempt, message.value);
      return;
    }
    if (stream !== active?.stream) return;
    heardAt = world.now();
    if (message.case === "leave") {
      log.info("the broker is about to stop; connecting to another one", { broker: active.url });
      // A shared address may lead to the same broker again, until its load balancer has noticed.
      const isAgain = world.now() - welcomedAt < againMs;
      connectAfter(isAgain ? againMs : Math.random() * firstDelayMs);
    } else if (message.case !== "heartbeat") onMessage(message);
  }

  function welcomed({ url, stream, timeout }: Attempt, welcome: EdgeWelcome): void {
    clearTimeout(timeout);
    attempt = undefined;
    active?.stream.close();
    const wasAway = active === undefined;
    active = { url, stream };
    heardAt = world.now();
    welcomedAt = heardAt;
    failures = 0;
    trouble = undefined;
    order = [];
    keepAlive(welcome.heartbeatEvery === undefined ? defaultHeartbeatMs : durationMs(welcome.heartbeatEvery));
    metrics.edgeConnected.set(1);
    metrics.edgeStreams.inc();
    log.info("connected to a broker", { broker: url, broker_id: welcome.brokerId, was_away: wasAway });
    const aheadMs = welcome.now === undefined ? 0 : timestampMs(welcome.now) - world.now();
    onWelcome({
      environment: welcome.environment,
      maxConnections: welcome.maxConnections,
      aheadMs: Math.abs(aheadMs) < leastAheadMs ? 0 : aheadMs,
    });
  }

  function ended(stream: FollowStream, { url, reason }: { readonly url: string; readonly reason: string }): void {
    if (stream === attempt?.stream) {
      clearTimeout(attempt.timeout);
      attempt = undefined;
      failed(url, reason);
    } else if (stream === active?.stream) {
      log.warn("lost the broker", { broker: url, reason });
      trouble = reason;
      away();
      if (attempt === undefined) connectAfter(Math.random() * firstDelayMs);
    }
  }

  function away(): void {
    active = undefined;
    clearInterval(beating);
    metrics.edgeConnected.set(0);
    onAway();
  }

  function failed(url: string, reason: string): void {
    failures += 1;
    trouble = reason;
    // One line for each round, so that a long outage does not fill the log.
    if (failures % urls.length === 0) log.warn("no broker can be reached; retrying", { broker: url, reason, failures });
    const round = Math.ceil(failures / urls.length);
    const longest = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(round, 10));
    connectAfter(order.length > 0 ? Math.random() * firstDelayMs : longest * (0.5 + Math.random() / 2));
  }

  function keepAlive(everyMs: number): void {
    clearInterval(beating);
    beating = setInterval(
      () => {
        if (active === undefined) return;
        if (world.now() - heardAt > 3 * everyMs) {
          const { url, stream } = active;
          stream.close();
          ended(stream, { url, reason: "nothing was heard from the broker" });
          return;
        }
        if (!sentSince) send({ case: "heartbeat", value: create(EdgeHeartbeatSchema) });
        sentSince = false;
      },
      Math.max(50, everyMs * 0.75),
    );
  }

  function send(message: ToBroker): boolean {
    if (active === undefined) return false;
    active.stream.send(message);
    sentSince = true;
    return true;
  }

  connect();
  return {
    send,
    awaySinceMs: () => (active === undefined ? heardAt : undefined),
    lastTrouble: () => trouble,
    close() {
      isClosed = true;
      clearTimeout(waiting);
      clearInterval(beating);
      clearTimeout(attempt?.timeout);
      attempt?.stream.close();
      active?.stream.close();
    },
  };
}

function shuffled(urls: readonly string[]): string[] {
  const all = urls.map((url) => ({ url, at: Math.random() }));
  return all.sort((one, other) => one.at - other.at).map(({ url }) => url);
}
