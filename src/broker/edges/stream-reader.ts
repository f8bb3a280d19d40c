import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { EdgeUse, FollowRequest, ScopesNotice } from "../../gen/latchkey/v1/edge_pb.ts";
import { connectionKey, connectionTouchKey } from "../connections/connection-collections.ts";
import { keyTouchKey } from "../setup/setup-collections.ts";
import { type LastUsedTimes, touchedBy } from "../stored/last-used.ts";
import type { AnswerWantedRequests } from "./edge-budgets.ts";
import type { EdgeConnections } from "./edge-connections.ts";
import type { EdgeKeys } from "./edge-keys.ts";
import type { EdgePasses } from "./edge-passes.ts";
import type { EdgeStream } from "./edge-stream.ts";
import type { AnswerWantedCertificate } from "./forward/edge-certificates.ts";
import type { EdgeRoutes } from "./forward/edge-routes.ts";

export interface StreamReaderOptions {
  readonly connections: EdgeConnections;
  readonly keys: EdgeKeys;
  readonly passes: EdgePasses;
  readonly drawRequests: AnswerWantedRequests;
  readonly routes: Pick<EdgeRoutes, "answer" | "drop">;
  readonly certify: AnswerWantedCertificate;
  /** Notes that a provider wants further scopes of a connection. */
  readonly noteLackingScopes: (ref: ConnectionRef, scopes: readonly string[]) => void;
  readonly lastUsed: LastUsedTimes;
  readonly onWant: (kind: "connection" | "key" | "pass" | "requests" | "routes" | "certificate") => void;
  readonly world: World;
}

/** Requests of one edge that are answered at a time; the next messages are read afterwards. */
const maxPending = 512;
/** Requests that an edge may send at once, and in each second; the rest is read later. */
const burst = 4_000;
const perSecond = 1_000;

/** Reads what an edge sends until it ends the stream. */
export type ReadStream = (stream: EdgeStream, messages: AsyncIterator<FollowRequest>) => Promise<void>;

export function createStreamReader(options: StreamReaderOptions): ReadStream {
  const { connections, keys, passes, drawRequests, routes, certify, noteLackingScopes, lastUsed, onWant, world } =
    options;

  function noteUse(stream: EdgeStream, use: EdgeUse): void {
    const now = world.now();
    const { environment } = stream.edge;
    for (const { ref, lastUsedAt } of use.connections) {
      const atMs = Math.min(now, lastUsedAt === undefined ? now : timestampMs(lastUsedAt));
      if (ref === undefined || !connections.used(stream, ref, atMs)) continue;
      lastUsed.touch(touchedBy(connectionTouchKey(environment, ref.integration, ref.id)), atMs);
    }
    for (const { keyId, lastUsedAt } of use.keys) {
      const atMs = Math.min(now, lastUsedAt === undefined ? now : timestampMs(lastUsedAt));
      if (stream.keyIds.has(keyId)) lastUsed.touch(touchedBy(keyTouchKey(keyId)), atMs);
    }
  }

  /** Returns the answer to a request that takes time; undefined: the message needs none. */
  function answerOf(stream: EdgeStream, { message }: FollowRequest): (() => Promise<void>) | undefined {
    switch (message.case) {
      case "wantConnection":
        onWant("connection");
        return () => connections.answer(stream, message.value);
      case "wantKey":
        onWant("key");
        return () => keys.answer(stream, message.value);
      case "wantPass":
        onWant("pass");
        // May wait for long, and must not keep other requests from being read.
        void passes.answer(stream, message.value);
        return undefined;
      case "wantRequests":
        onWant("requests");
        return () => drawRequests(stream, message.value);
      case "wantRoutes":
        onWant("routes");
        return () => routes.answer(stream, message.value);
      case "wantCertificate":
        onWant("certificate");
        return () => certify(stream, message.value);
      case "dropRoutes":
        routes.drop(stream, message.value);
        return undefined;
      case "scopesNotice":
        noteScopes(stream, message.value, noteLackingScopes);
        return undefined;
      case "dropConnection":
        connections.drop(stream, message.value);
        return undefined;
      case "dropKey":
        keys.drop(stream, message.value.digest);
        return undefined;
      case "use":
        noteUse(stream, message.value);
        return undefined;
      case "limitNotice":
        return () => passes.note(stream, message.value);
      case "hello":
        throw new Fault("invalid_body", "`hello` must be sent once");
      case "held":
        throw new Fault("invalid_body", "`held` must follow `hello`, as often as it says");
      default:
        return undefined;
    }
  }

  return async (stream, messages) => {
    const allowance = createAllowance();
    let pending = 0;
    let onFree = () => {};
    for (;;) {
      const next = await messages.next();
      if (next.done === true) return;
      stream.heardAtMs = performance.now();
      const answer = answerOf(stream, next.value);
      if (answer === undefined) continue;
      pending += 1;
      void answer()
        .catch((error: unknown) => stream.outbox.end(error))
        .finally(() => {
          pending -= 1;
          onFree();
        });
      stream.isPaused = true;
      if (pending >= maxPending) {
        await new Promise<void>((resolve) => {
          onFree = resolve;
        });
      }
      await allowance();
      await stream.outbox.room();
      stream.isPaused = false;
    }
  };
}

/** Notes scopes only of a connection that the edge uses. */
function noteScopes(
  { edge: { environment }, connections }: EdgeStream,
  { ref, scopes }: ScopesNotice,
  note: StreamReaderOptions["noteLackingScopes"],
): void {
  const own = ref && { ...ref, environment };
  if (own !== undefined && connections.has(connectionKey(own))) note(own, scopes);
}

/** Returns a function that resolves when the next request may be read. */
function createAllowance(): () => Promise<void> | undefined {
  let left = burst;
  let atMs = performance.now();
  return () => {
    const now = performance.now();
    left = Math.min(burst, left + ((now - atMs) * perSecond) / 1_000) - 1;
    atMs = now;
    return left >= 0 ? undefined : sleep((-left * 1_000) / perSecond);
  };
}
