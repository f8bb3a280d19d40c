import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import {
  type Edge,
  type EdgeHello,
  EdgeInSyncSchema,
  EdgeLeaveSchema,
  type EdgeWelcome,
  EdgeWelcomeSchema,
  type FollowRequest,
  type FollowResponse,
} from "../../gen/latchkey/v1/edge_pb.ts";
import type { Caller } from "../setup/caller.ts";
import type { Environments } from "../setup/environments.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { EdgeAudit } from "./edge-audit.ts";
import type { EdgeChanges } from "./edge-changes.ts";
import { type EdgeConnections, maxConnections } from "./edge-connections.ts";
import { type EdgeGreeting, readGreeting } from "./edge-greeting.ts";
import type { EdgeKeys } from "./edge-keys.ts";
import { listEdges } from "./edge-list.ts";
import type { EdgePolicies } from "./edge-policies.ts";
import type { EdgeSetups } from "./edge-setups.ts";
import { EdgeStream } from "./edge-stream.ts";
import type { EdgeAuthorities } from "./forward/edge-authorities.ts";
import type { EdgeRoutes } from "./forward/edge-routes.ts";
import { heartbeatEveryMs, keepAlive } from "./keep-alive.ts";
import type { ReadStream } from "./stream-reader.ts";

/** The edges that are connected to this process. */
export interface Edges {
  /** Serves an edge until it leaves. */
  follow(messages: AsyncIterable<FollowRequest>, options: EdgeCall): AsyncGenerator<FollowResponse>;
  /** Lists the edges of an environment; empty: all. */
  list(filter: { readonly environment: string }, page: PageOptions): PageOf<Edge>;
  /** Asks all edges to connect to another broker; resolves when they have left, or after a moment. */
  leave(): Promise<void>;
}

export interface EdgeCall {
  readonly caller: Caller;
  readonly signal: AbortSignal;
  /** Called when the edge does not read what waits for it. */
  readonly onOverrun: () => void;
}

/** Lifetime of the edges' streams. */
export interface EdgeStreams extends Edges {
  close(): void;
}

interface EdgesOptions {
  readonly environments: Pick<Environments, "of">;
  readonly changes: EdgeChanges;
  readonly connections: EdgeConnections;
  readonly keys: EdgeKeys;
  readonly policies: EdgePolicies;
  readonly setups: EdgeSetups;
  readonly routes: EdgeRoutes;
  readonly authorities: EdgeAuthorities;
  readonly read: ReadStream;
  readonly audit: EdgeAudit;
  readonly world: World;
}

const tickEveryMs = 1_000;
const leaveWithinMs = 2_000;
const maxEdges = 20_000;
/** Held connections of one edge that are compared at a time. */
const comparedAtOnce = 16;

export function createEdges(options: EdgesOptions): EdgeStreams {
  const { environments, changes, connections, keys, policies, setups, routes, authorities, read, audit, world } =
    options;
  const followed = [connections, keys, policies, setups, routes, authorities];
  const { metrics, log } = world;
  const brokerId = randomId();
  const streams = new Map<EdgeStream, EdgeCall>();
  let timer: NodeJS.Timeout | undefined;
  let leaving: Promise<void> | undefined;
  let onEmpty = () => {};

  /** One timer for all edges. */
  function tick(): void {
    for (const [stream, call] of streams) {
      if (!keepAlive(stream, world)) continue;
      metrics.watchersDropped.inc();
      call.onOverrun();
    }
    connections.refreshDue();
  }

  function enter(stream: EdgeStream, how: EdgeCall): void {
    if (streams.size >= maxEdges) throw new Fault("overloaded", "too many edges are connected; try another broker");
    streams.set(stream, how);
    metrics.edges.set(streams.size);
    timer ??= setInterval(tick, tickEveryMs).unref();
    audit.connected(stream);
    const { host, identity, environment } = stream.edge;
    log.info("edge connected", { host, key: identity, environment });
  }

  function exit(stream: EdgeStream): void {
    streams.delete(stream);
    for (const one of followed) one.dropAll(stream);
    metrics.edges.set(streams.size);
    audit.disconnected(stream);
    const { host, identity, environment } = stream.edge;
    log.info("edge disconnected", { host, key: identity, environment });
    if (streams.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    // After the last stream was answered: stopping would otherwise end it with an error.
    setImmediate(onEmpty);
  }

  async function sendAway(): Promise<void> {
    if (streams.size === 0) return;
    for (const { outbox } of streams.keys()) outbox.answer({ case: "leave", value: create(EdgeLeaveSchema) });
    const empty = new Promise<void>((resolve) => {
      onEmpty = resolve;
    });
    await Promise.race([empty, sleep(leaveWithinMs, undefined, { ref: false })]);
  }

  return {
    async *follow(messages, how) {
      const iterator = messages[Symbol.asyncIterator]();
      const { hello, held } = await readGreeting(iterator);
      const environment = await environments.of(how.caller, hello.environment);
      await changes.start();
      const stream = newStream(hello, { caller: how.caller, environment, nowMs: world.now() });
      enter(stream, how);
      try {
        stream.outbox.answer({
          case: "welcome",
          value: welcomeOf(stream, { brokerId, nowMs: world.now(), heldMessages: held.length - 1 }),
        });
        if (leaving !== undefined) stream.outbox.answer({ case: "leave", value: create(EdgeLeaveSchema) });
        const end = (error?: unknown) => stream.outbox.end(error);
        resume(stream, { hello, held }, options).catch(end);
        read(stream, iterator).then(() => end(), end);
        yield* stream.outbox.messages(how.signal);
      } finally {
        exit(stream);
      }
    },
    list: (filter, page) => listEdges(streams.keys(), filter, page),
    leave() {
      leaving ??= sendAway();
      return leaving;
    },
    close() {
      clearInterval(timer);
      for (const { outbox } of streams.keys()) outbox.end();
      for (const one of followed) one.close();
    },
  };
}

interface StreamPlace {
  readonly caller: Caller;
  readonly environment: string;
  readonly nowMs: number;
}

function newStream(hello: EdgeHello, { caller, environment, nowMs }: StreamPlace): EdgeStream {
  return new EdgeStream({
    id: hello.edgeId,
    host: hello.host,
    version: hello.version,
    environment,
    identity: caller.keyId,
    proof: caller.edge?.kind ?? "key",
    appliesLimits: hello.appliesLimits,
    appliesTools: hello.appliesTools,
    appliesPolicies: hello.appliesPolicies,
    hasForwardProxy: hello.hasForwardProxy,
    proofEndsAtMs: caller.edge?.endsAtMs,
    connectedAtMs: nowMs,
  });
}

interface WelcomeParts {
  readonly brokerId: string;
  readonly nowMs: number;
  /** `held` messages that were read. */
  readonly heldMessages: number;
}

function welcomeOf({ edge }: EdgeStream, broker: WelcomeParts): EdgeWelcome {
  return create(EdgeWelcomeSchema, {
    brokerId: broker.brokerId,
    version,
    environment: edge.environment,
    heartbeatEvery: durationFromMs(heartbeatEveryMs),
    maxConnections,
    now: timestampFromMs(broker.nowMs),
    heldMessages: broker.heldMessages,
    servesRoutes: true,
  });
}

/** Sends what differs from what the edge still has. */
async function resume(
  stream: EdgeStream,
  { hello, held }: Pick<EdgeGreeting, "hello" | "held">,
  options: Pick<EdgesOptions, "keys" | "policies" | "setups" | "connections" | "authorities">,
): Promise<void> {
  const { keys, policies, setups, connections, authorities } = options;
  policies.resume(stream, hello.policiesVersion);
  // Keys first: they are in memory, and what was revoked matters most.
  for (const part of held) for (const one of part.keys) keys.resume(stream, one);
  for (const part of held) await setups.resume(stream, part);
  const rest = held.flatMap((part) => part.connections).values();
  const compare = async () => {
    for (const one of rest) await connections.resume(stream, one);
  };
  await Promise.all([...Array.from({ length: comparedAtOnce }, compare), authorities.resume(stream)]);
  stream.outbox.answer({ case: "inSync", value: create(EdgeInSyncSchema) });
}
