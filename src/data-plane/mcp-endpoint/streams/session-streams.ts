import type { JsonObject } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import type { Broker } from "../../../broker/broker.ts";
import type { ClientSession } from "../../../broker/mcp-clients/session-subscriptions.ts";
import { starterOf } from "../../../broker/setup/caller.ts";
import { faultOfStore } from "../../../broker/stored/store-fault.ts";
import type { ClientProfile } from "../../../core/mcp-endpoint/client-profile.ts";
import { invalidParams, RpcFailure, rpcCodes } from "../../../core/mcp-endpoint/protocol.ts";
import type { AnswerStream } from "../../server/routes.ts";
import { type EndpointCaller, endpointCallerNow } from "../endpoint-caller.ts";
import { resourceAt } from "../resources.ts";
import type { RpcRequest } from "../rpc-request.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import { createCallerSlots } from "./caller-slots.ts";
import { EventWriter } from "./event-writer.ts";
import type { FindFollowed } from "./followed-records.ts";
import { hasLeft } from "./has-left.ts";
import { createSessionWatch } from "./session-watch.ts";

/**
 * Subscriptions of clients before 2026-07-28: they belong to a session, and changes are told on its stream, which may be
 * at another process.
 */
export interface SessionStreams {
  subscribe(request: RpcRequest): Promise<void>;
  unsubscribe(request: RpcRequest): Promise<void>;
  /** Returns what writes the stream of a session. Throws if too many are open. */
  open(of: StreamingSession): (to: AnswerStream) => Promise<void>;
}

interface StreamingSession {
  readonly caller: EndpointCaller;
  readonly client: ClientProfile;
}

interface SessionStreamOptions {
  readonly broker: Pick<Broker, "access" | "records" | "sessionSubscriptions">;
  readonly findFollowed: FindFollowed;
  readonly catalogOf: (caller: EndpointCaller) => Promise<ToolCatalog>;
  readonly world: World;
}

const slots = { most: 1_000, mostOfCaller: 100, of: "streams of sessions" };
/** A client opens the next stream after that. Tokens of users are checked when they do. */
const maxMs = 10 * 60_000;
/** Changes are told at most this often. */
const beatMs = 500;
/** A stream with nothing to tell notices that its key has ended. */
const idleBeatMs = 1_000;
const maxUriLength = 2_000;

export function createSessionStreams(options: SessionStreamOptions): SessionStreams {
  const { broker, findFollowed, catalogOf, world } = options;
  const { access, records, sessionSubscriptions } = broker;
  const enter = createCallerSlots(slots);

  /** Writes changes until the client leaves, its key ends, or the time is over. */
  async function follow({ caller, client }: StreamingSession, to: AnswerStream): Promise<void> {
    const leaving = caller.leaving();
    const session = await sessionSubscriptions.follow(sessionOf({ caller, client }));
    const endMs = performance.now() + maxMs;
    const watch = createSessionWatch({
      records,
      findFollowed,
      async readerNow() {
        const now = endpointCallerNow(access, caller);
        return { caller: now, catalog: await catalogOf(now) };
      },
    });
    const events = new EventWriter(to);

    try {
      while (performance.now() < endMs) {
        endpointCallerNow(access, caller);
        const taken = await session.taken();
        await watch.look(taken);
        if (!to.isFull()) {
          for (const uri of await watch.changed()) {
            events.write({ jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri } });
          }
        }
        events.keepAlive();
        if (await hasLeft(leaving, watch.isIdle() ? idleBeatMs : beatMs)) return;
      }
    } finally {
      watch.close();
      session.close();
    }
  }

  return {
    async subscribe(request) {
      const { caller } = request;
      const session = sessionOf(request);
      const uri = uriIn(request);
      const catalog = await catalogOf(caller);
      if ((await findFollowed(uri, { caller, catalog })) === undefined) {
        const isThere = resourceAt(catalog.resources, uri) !== undefined;
        const data = { uri: uri.slice(0, 500) };
        if (!isThere) throw new RpcFailure(rpcCodes.resourceNotFound, "resource not found", { data });
        throw invalidParams("the resource cannot be followed: it changes with no saved records that you may read");
      }
      await sessionSubscriptions.add(session, uri);
    },
    unsubscribe: (request) => sessionSubscriptions.remove(sessionOf(request), uriIn(request)),
    open(of) {
      const leave = enter(of.caller);
      return (to) =>
        follow(of, to)
          .catch((error: unknown) => {
            // The client opens the stream again, and is told then what is wrong.
            const { code, cause } = faultOfStore(error);
            if (code === "internal") world.log.error("a stream failed unexpectedly", { err: cause });
          })
          .finally(leave);
    },
  };
}

function sessionOf({ caller, client }: StreamingSession): ClientSession {
  if (client.session === "") {
    const message = "send the header Mcp-Session-Id that `initialize` has answered with: subscriptions belong to it";
    throw new RpcFailure(rpcCodes.invalidRequest, message);
  }
  return { caller: JSON.stringify([caller.environment, starterOf(caller.caller)]), session: client.session };
}

function uriIn({ params }: { readonly params: JsonObject }): string {
  const { uri } = params;
  if (typeof uri === "string" && uri.length <= maxUriLength) return uri;
  throw invalidParams(`\`uri\` must be the URI of a resource, of at most ${maxUriLength} characters`);
}
