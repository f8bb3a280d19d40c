import type { Server } from "node:net";
import type { ConnectionLimit } from "../../base/http/connection-limit.ts";
import type { DoorGuard } from "../../base/http/door-guard.ts";
import type { ListenerTls } from "../../base/http/listener.ts";
import type { RareWarning } from "../../base/rare-warning.ts";
import type { World } from "../../base/world.ts";
import type { Hints } from "../../broker/hints.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ProviderProxy } from "../proxy/proxy.ts";
import { createDoorAnswers, createEndlessResponses } from "./answers.ts";
import type { CallerAccess } from "./authenticate-request.ts";
import { createBodyRoom } from "./body-room.ts";
import type { ForwardTraffic } from "./forward-traffic.ts";
import { createHeadCheck } from "./heads.ts";
import { createIgnoredFields } from "./ignored-fields.ts";
import { createPageUpgrades, type DoorPages } from "./page-upgrades.ts";
import { createDoorProtocols, type DoorProtocols } from "./protocols.ts";
import { createAliasLookup, createProviderDispatch } from "./provider-dispatch.ts";
import { createRefusalLog } from "./refusal-log.ts";
import { createRelayedRoutes, type RouteRelay } from "./relayed-routes.ts";
import { createDoorCount } from "./request-count.ts";
import { createRouteRequests, type FieldRules } from "./route-requests.ts";
import { createRouter, createWebhookLookup, type Route } from "./routes.ts";
import { createDoorSockets } from "./sockets.ts";
import { createDoorTunnels } from "./tunnels.ts";

/** A listener for HTTP and JSON. */
export interface Door {
  readonly server: Server;
  /**
   * Accepts connections, but closes each one with its next response: clients that reconnect reach another instance.
   */
  leave(): void;
  /** Accepts no more connections; resolves when the requests in progress have been answered. */
  drain(): Promise<void>;
  /** Ends requests without an end of their own: tunnels with a Close frame, event streams by a cut. */
  endStreams(): void;
  /** Destroys what is still in progress. */
  destroy(): void;
}

interface DoorOptions {
  readonly name: "data" | "public" | "forwardProxy";
  readonly routes: readonly Route[];
  /** Routes that come and go with the customer's scripts. */
  readonly otherRoutes?: (path: string) => readonly Route[];
  /** Takes all requests that are neither for providers nor for a path of `routes`. */
  readonly relay?: RouteRelay;
  /** Handles requests to providers; the public listener has none. */
  readonly proxy?: ProviderProxy;
  /** The connection for every request of this listener. */
  readonly alias?: ConnectionRef;
  /** Makes the listener a forward proxy. */
  readonly forward?: ForwardTraffic;
  /** Connections by host name. */
  readonly aliases?: ReadonlyMap<string, ConnectionRef>;
  readonly access: Pick<CallerAccess, "authenticate" | "callerOfPeer">;
  readonly hints?: Hints;
  readonly fieldRules?: FieldRules;
  readonly guard: DoorGuard;
  /** Page support, on listeners that browsers may use. */
  readonly pages?: DoorPages;
  readonly limits: {
    readonly jsonBodyBytes: number;
    readonly webhookBodyBytes: number;
    readonly headBytes: number;
    readonly headLines: number;
    readonly pathBytes: number;
  };
  readonly tls: ListenerTls | undefined;
  /** Ordinary requests to providers skip `node:http`; not over TLS. */
  readonly hasFastPath?: boolean;
  /** On the fast path, client connections share one read buffer. */
  readonly sharesReads?: boolean;
  /** Limits how long an HTTP/2 client may read nothing of a complete response. */
  readonly stallMs?: number;
  /** Undefined: no limit. */
  readonly connections?: ConnectionLimit | undefined;
  readonly warn: RareWarning;
  readonly world: World;
}

const defaultStallMs = 60_000;
/** Limits webhook bodies in memory: a dozen of the largest, or thousands of usual ones. */
const maxBodiesBytes = 64 * 1024 * 1024;

export function createDoor(options: DoorOptions): Door {
  const { name: door, routes, proxy, alias, aliases, access, guard, pages, limits, tls, warn, world } = options;
  const { stallMs = defaultStallMs, hasFastPath = false, sharesReads = false, connections } = options;
  const { metrics } = world;
  let leaving = false;
  let draining = false;
  const listener = door === "forwardProxy" ? "forward" : door;
  const isLeaving = () => leaving;
  const isDraining = () => draining;
  const sockets = createDoorSockets();
  const tunnels = createDoorTunnels();
  /** Responses without end, which are destroyed on shutdown. */
  const endless = createEndlessResponses();
  const room = createBodyRoom(maxBodiesBytes);
  const count = createDoorCount(metrics, door);
  const answers = createDoorAnswers({ door, sockets, isDraining: isLeaving, endless, world });
  const heads = createHeadCheck({ guard, origins: pages?.origins, limits });
  const refusals = createRefusalLog({ door, origins: pages?.origins, warn, metrics });
  const { forward } = options;
  const isForwardOnly = door === "forwardProxy";
  const aliasOf = createAliasLookup({ alias, aliases });
  const shared = { heads, answers, count, refusals, sockets, tunnels, isLeaving, isDraining };
  const providers =
    proxy && createProviderDispatch({ ...shared, listener, proxy, aliasOf, forward, isForwardOnly, endless });
  const pageUpgrades = pages && createPageUpgrades({ ...shared, sockets: pages.sockets });
  const relayed = options.relay && createRelayedRoutes({ ...shared, relay: options.relay });
  const router = createRouter(routes, options.otherRoutes);
  const toRoute = createRouteRequests({
    ...shared,
    listener,
    router,
    access,
    room,
    hasPages: pages !== undefined,
    limits,
    hints: options.hints,
    fieldRules: options.fieldRules ?? { refusesMisspelled: false },
    ignored: createIgnoredFields(world),
  });

  const isRouted = ({
    method = "GET",
    url = "",
  }: {
    readonly method?: string | undefined;
    readonly url?: string | undefined;
  }) => routes.length > 0 && router.find(method, url.split("?", 1)[0] ?? "") !== undefined;
  const webhookRoute = createWebhookLookup(routes);
  const usesFastPath = hasFastPath && tls === undefined && (proxy !== undefined || webhookRoute !== undefined);
  const { textOf, textOfAnswer } = answers;
  const receiving = { routeFor: webhookRoute, maxBytes: limits.webhookBodyBytes, count, room, textOf, textOfAnswer };
  const checks = { check: heads.checkForProvider, checkInTunnel: heads.checkInTunnel };
  const protocols: DoorProtocols = createDoorProtocols({
    ...{ ...shared, tls, connections, stallMs, sharesReads, metrics },
    maxHeadBytes: limits.headBytes,
    maxHeadLines: limits.headLines,
    // A body for a provider may take any time; routes that read a body set their own limit.
    requestTimeoutMs: proxy === undefined ? 30_000 : 0,
    fastPath: usesFastPath
      ? { listener, proxy, aliasOf, forward, count, textOf, endless, receiving, ...checks }
      : undefined,
    onRequest(call) {
      if (providers?.includes(call.request) === true) providers.send(call);
      else if (relayed !== undefined && !isRouted(call.request)) relayed.send(call);
      else void toRoute(call);
    },
    onConnect:
      forward && ((call) => forward.connect({ ...call, listener, isDraining: draining, serve: protocols.serve })),
    upgradeFor(request) {
      if (providers?.includes(request) === true) return providers.upgrade;
      if (relayed !== undefined) return relayed.upgrade;
      return pageUpgrades?.includes(request) === true ? pageUpgrades.open : undefined;
    },
  });

  return {
    server: protocols.server,
    leave() {
      leaving = true;
      protocols.leave();
    },
    drain() {
      leaving = true;
      draining = true;
      const drained = protocols.drain(() => forward?.drain());
      pageUpgrades?.close();
      tunnels.drain();
      return drained;
    },
    endStreams() {
      tunnels.close();
      for (const response of endless.now()) response.destroy();
    },
    // Also destroys tunnels.
    destroy: () => protocols.destroy(),
  };
}
