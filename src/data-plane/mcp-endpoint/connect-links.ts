import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { type Caller, mayDo } from "../../broker/setup/caller.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { ConnectionRefSchema, EndUserSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { EndpointCaller } from "./endpoint-caller.ts";
import type { AccountNeeded } from "./tool-call.ts";

/** Links by which users connect the accounts that calls lack. */
export interface ConnectLinks {
  /**
   * Returns a link for what is needed; undefined if the caller may give none. A caller that calls again gets the same
   * link, until it is used or over.
   */
  linkFor(needed: AccountNeeded, caller: EndpointCaller): Promise<ConnectLink | undefined>;
  /** Waits until the user has followed a link to its end, for a while. */
  waitFor(sessionId: string, caller: EndpointCaller): Promise<void>;
}

export interface ConnectLink {
  readonly url: string;
  /** ID of the connect session: a hash, which opens nothing. */
  readonly sessionId: string;
}

type LinkServices = Pick<Broker, "sessions" | "connections">;

const maxKept = 10_000;
/** A link that is about to end is not given again. */
const keptMs = 20 * 60_000;
/** Clients give up a call after a minute. */
const maxWaitMs = 45_000;
const lookEveryMs = 250;
const maxWaiting = 200;

export function createConnectLinks({ sessions, connections }: LinkServices): ConnectLinks {
  const known = createLateCache<Promise<ConnectLink>>({ max: maxKept, ttl: keptMs });
  let waiting = 0;

  async function isOpen(environment: string, id: string): Promise<boolean> {
    try {
      await sessions.get({ environment, id });
      return true;
    } catch (error) {
      if (error instanceof Fault && error.code === "not_found") return false;
      throw error;
    }
  }

  async function createLink(needed: AccountNeeded, { caller, environment }: EndpointCaller): Promise<ConnectLink> {
    const { integration, id } = needed.connection;
    const ref = create(ConnectionRefSchema, { environment, integration, id });
    const [existing] = id === "" ? [] : await connections.getMany([ref]);
    const { session, connectLink } = await sessions.create(
      {
        environment,
        tags: {},
        allowedIntegrations: [integration],
        integrationDefaults: {},
        overrides: {},
        webhookUrlOverride: "",
        // The page shows this user.
        ...(existing === undefined && { endUser: create(EndUserSchema, { id: userIdOf(caller, id) }) }),
        ...(existing !== undefined && { reconnect: ref }),
      },
      caller,
      existing === undefined ? { connectionId: id } : {},
    );
    return { url: connectLink, sessionId: session.id };
  }

  /** A caller who is an end user connects accounts of their own. */
  const userIdOf = ({ endUserId, keyId }: Caller, id: string): string => endUserId ?? (id === "" ? keyId : id);

  return {
    async linkFor(needed, endpointCaller) {
      const { caller, environment } = endpointCaller;
      if (!mayDo(caller, Scope.CONNECTIONS_WRITE)) return undefined;
      const { integration, id } = needed.connection;
      const at = [caller.keyId, caller.accessSession?.id ?? "", environment, integration, id].join("\0");
      const before = await known.get(at);
      if (before !== undefined && (await isOpen(environment, before.sessionId))) return before;
      const created = createLink(needed, endpointCaller);
      known.set(at, created);
      created.catch(() => known.delete(at));
      return created;
    },
    async waitFor(sessionId, { environment }) {
      if (waiting >= maxWaiting || !/^[0-9a-f]{64}$/.test(sessionId)) return;
      waiting += 1;
      try {
        const end = performance.now() + maxWaitMs;
        while (performance.now() < end && (await isOpen(environment, sessionId))) await sleep(lookEveryMs);
      } finally {
        waiting -= 1;
      }
    },
  };
}
