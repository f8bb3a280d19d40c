import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import type { Broker } from "../../../broker/broker.ts";
import { faultOfStore } from "../../../broker/stored/store-fault.ts";
import { isObject } from "../../../core/dialect/json-fields.ts";
import { serverInfoKey, subscriptionKey } from "../../../core/mcp-endpoint/client-profile.ts";
import {
  invalidParams,
  RpcFailure,
  type RpcId,
  resultResponse,
  rpcCodes,
} from "../../../core/mcp-endpoint/protocol.ts";
import type { AnswerStream } from "../../server/routes.ts";
import { type EndpointCaller, endpointCallerNow } from "../endpoint-caller.ts";
import { eventOf } from "../event-answer.ts";
import { rpcErrorBody } from "../rpc-faults.ts";
import type { RpcRequest, RpcResult } from "../rpc-request.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import { createCallerSlots } from "./caller-slots.ts";
import { EventWriter } from "./event-writer.ts";
import type { FindFollowed, FollowedResource } from "./followed-records.ts";
import { hasLeft } from "./has-left.ts";

/** Answers `subscriptions/listen` of 2026-07-28: the stream is the subscription, so that nothing is kept besides it. */
export type Listen = (request: RpcRequest) => Promise<RpcResult>;

interface SubscriptionServices {
  readonly broker: Pick<Broker, "access" | "records">;
  readonly findFollowed: FindFollowed;
  readonly catalogOf: (caller: EndpointCaller) => Promise<ToolCatalog>;
  readonly serverInfo: JsonObject;
  readonly world: World;
}

/** Each reads the store when records change. */
const slots = { most: 100, mostOfCaller: 10, of: "subscriptions" };
const maxUris = 50;
/** A client listens again after that. Tokens of users are checked when they do. */
const maxMs = 10 * 60_000;
/** Changes are told at most this often, and callers that may not read any more are noticed. */
const beatMs = 500;

export function createSubscriptions(services: SubscriptionServices): Listen {
  const { broker, findFollowed, catalogOf, serverInfo, world } = services;
  const { access, records } = broker;
  const enter = createCallerSlots(slots);

  /** Writes changes until the client leaves, the time is over, or the caller may not read what has changed. */
  async function follow({ id, watched, caller }: OpenSubscription, to: AnswerStream): Promise<void> {
    const leaving = caller.leaving();
    const watch = await records.watch(watched.map(({ scope }) => scope));
    const events = subscriptionEvents(id, to);
    const changed = new Set<FollowedResource>();
    const endMs = performance.now() + maxMs;
    try {
      events.acknowledge(watched.map(({ uri }) => uri));
      while (performance.now() < endMs) {
        if (await hasLeft(leaving, beatMs)) return;
        const now = endpointCallerNow(access, caller);
        for (const n of await watch.taken()) {
          const one = watched[n];
          if (one !== undefined) changed.add(one);
        }
        if (changed.size > 0 && !to.isFull()) {
          const reader = { caller: now, catalog: await catalogOf(now) };
          for (const { uri, scope } of changed) {
            const found = await findFollowed(uri, reader);
            // A URI without the ID of a connection names the only one, which may be another by now.
            if (found?.scope.connection.id !== scope.connection.id) return events.end(serverInfo);
            events.updated(uri);
          }
          changed.clear();
        }
        events.keepAlive();
      }
      events.end(serverInfo);
    } finally {
      watch.close();
    }
  }

  return async ({ id, params, caller, takesEvents }) => {
    if (!takesEvents) throw new RpcFailure(rpcCodes.invalidRequest, "accept text/event-stream", { status: 406 });
    const wanted = urisIn(params);
    const leave = enter(caller);
    try {
      const reader = { caller, catalog: await catalogOf(caller) };
      const found = await Promise.all(wanted.map((uri) => findFollowed(uri, reader)));
      const watched = found.filter((one) => one !== undefined);
      const stream = (to: AnswerStream) =>
        follow({ id, watched, caller }, to)
          .catch((error: unknown) => {
            const fault = faultOfStore(error);
            if (fault.code === "internal") world.log.error("a subscription failed unexpectedly", { err: fault.cause });
            to.write(eventOf(rpcErrorBody(fault, id)));
          })
          .finally(leave);
      return { result: {}, stream };
    } catch (error) {
      leave();
      throw error;
    }
  };
}

/** Writes the messages of a subscription, each with its ID. */
function subscriptionEvents(id: RpcId, to: AnswerStream) {
  const events = new EventWriter(to);

  const note = (method: string, params: JsonObject) =>
    events.write({ jsonrpc: "2.0", method, params: { ...params, _meta: { [subscriptionKey]: id } } });

  return {
    acknowledge(uris: readonly string[]) {
      const notifications = uris.length === 0 ? {} : { resourceSubscriptions: [...uris] };
      note("notifications/subscriptions/acknowledged", { notifications });
    },
    updated: (uri: string) => note("notifications/resources/updated", { uri }),
    keepAlive: () => events.keepAlive(),
    /** Tells the client that it may subscribe again. */
    end(serverInfo: JsonObject) {
      const _meta = { [serverInfoKey]: serverInfo, [subscriptionKey]: id };
      events.write(resultResponse(id, { resultType: "complete", _meta }));
    },
  };
}

interface OpenSubscription {
  readonly id: RpcId;
  readonly watched: readonly FollowedResource[];
  readonly caller: EndpointCaller;
}

/** Returns the URIs that a client wants to follow. Other kinds of notifications are not sent, and not acknowledged. */
function urisIn({ notifications }: JsonObject): readonly string[] {
  if (!isObject(notifications)) throw invalidParams("`notifications` must be an object");
  const { resourceSubscriptions: uris = [] } = notifications;
  if (!Array.isArray(uris) || uris.length > maxUris || !uris.every(isText)) {
    throw invalidParams(`\`notifications.resourceSubscriptions\` must be a list of at most ${maxUris} URIs`);
  }
  return [...new Set(uris)];
}

const isText = (value: JsonValue): value is string => typeof value === "string";
