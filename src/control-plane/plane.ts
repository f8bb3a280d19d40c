import type { DescFile } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { ConnectionLimit } from "../base/http/connection-limit.ts";
import type { DoorGuard } from "../base/http/door-guard.ts";
import type { ListenerTls } from "../base/http/listener.ts";
import type { RareWarning } from "../base/rare-warning.ts";
import type { Readiness } from "../base/readiness.ts";
import type { SendSmallRequest } from "../base/small-requests.ts";
import type { World } from "../base/world.ts";
import type { Broker } from "../broker/broker.ts";
import type { SendToProvider } from "../broker/traffic/send-to-provider.ts";
import type { ConfigInForce } from "../core/config-in-force.ts";
import type { IdentityProvider } from "../core/identity-provider.ts";
import { file_google_rpc_error_details } from "../gen/google/rpc/error_details_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServerReflection as ServerReflectionAlpha } from "../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { lazyDashboard } from "./dashboard/lazy.ts";
import {
  authorize,
  type CallerSources,
  refuseUntilReady,
  requireBase64,
  requireCaller,
  requireImplemented,
} from "./server/gate.ts";
import { healthService } from "./server/health.ts";
import { translateFaults, translateGates } from "./server/interceptors.ts";
import type { ServiceRouter } from "./server/method-handlers.ts";
import { type ControlPort, createControlPort } from "./server/port.ts";
import { reflectionService } from "./server/reflection.ts";
import { endStreams } from "./server/streams.ts";
import { requireValid, validateRequests } from "./server/validate.ts";
import { implementServices, services } from "./services/services.ts";

export interface ControlPlane extends Pick<ControlPort, "server" | "leave" | "drain" | "destroy"> {
  /** Starts serving with this broker. Until then, every call except health and reflection fails with `not_ready`. */
  open(broker: Broker, beside: PartsBeside): void;
}

/** What the services need beside the broker. */
export interface PartsBeside {
  readonly config: ConfigInForce;
  readonly sendToProvider: SendToProvider;
  /** Address of the forward proxy; undefined: it is off. */
  readonly forwardProxy: string | undefined;
  readonly identityProvider: IdentityProvider | undefined;
  /** Sends small requests to hosts on the network, such as an identity provider. */
  readonly send: SendSmallRequest;
}

interface ControlPlaneOptions {
  readonly readiness: Readiness;
  readonly guard: DoorGuard;
  readonly maxMessageBytes: number;
  readonly maxHeadBytes: number;
  readonly maxHeadLines: number;
  readonly tls: ListenerTls | undefined;
  readonly warn: RareWarning;
  readonly world: World;
  /** Ends the streams, so that the port can drain. */
  readonly shutdown: AbortSignal;
  /** How long a client may leave its response unread; default: a minute. */
  readonly stallMs?: number;
  /** Undefined: any number of connections. */
  readonly connections?: ConnectionLimit | undefined;
  /** The listener's name in logs and metrics; default: `control`. */
  readonly door?: string;
  /** Serves the dashboard too, or the dashboard alone: then a key without a browser session is not accepted. */
  readonly dashboard?: "also" | "only" | undefined;
}

export function createControlPlane({ readiness, shutdown, dashboard, ...options }: ControlPlaneOptions): ControlPlane {
  const { world } = options;
  const described = [...services, Health, ServerReflection, ServerReflectionAlpha];
  const names = described.map(({ typeName }) => typeName).sort();
  const files: DescFile[] = described.map(({ file }) => file);
  const reflection = reflectionService([...files, file_google_rpc_error_details], names);

  function openToAll(router: ServiceRouter): void {
    router.service(Health, healthService(readiness, new Set(names)));
    router.service(ServerReflection, reflection);
    // The two versions of reflection differ only in the package name.
    router.service(ServerReflectionAlpha, reflection as unknown as ServiceImpl<typeof ServerReflectionAlpha>);
  }

  function closed(router: ServiceRouter): void {
    for (const service of services) router.service(service, {});
    openToAll(router);
  }

  const sessions = dashboard ?? "none";
  const pages = dashboard === undefined ? undefined : lazyDashboard({ isTls: options.tls !== undefined, world });
  const port = createControlPort({ ...options, pages });
  const translate = translateFaults(world);
  port.serve({
    routes: closed,
    gate: translateGates(world, [refuseUntilReady, requireBase64]),
    interceptors: [translate, endStreams({ shutdown, authorize: async () => {} })],
  });
  return {
    server: port.server,
    leave: () => port.leave(),
    drain: () => port.drain(),
    destroy: () => port.destroy(),
    open(broker, { config, sendToProvider, forwardProxy, ...signIn }) {
      const { access, browserSessions, edgeAccess } = broker;
      const sources: CallerSources = { access, browserSessions, sessions, edgeAccess };
      const all = implementServices(broker, { config, requireValid, sendToProvider, forwardProxy });
      const implemented = new Set(all.flatMap(({ methods }) => methods));
      pages?.open({ broker, ...signIn });
      port.serve({
        routes(router) {
          closed(router);
          for (const { register } of all) register(router);
        },
        gate: translateGates(world, [requireCaller(sources), requireImplemented(implemented), requireBase64]),
        interceptors: [
          translateFaults(world, broker.hints),
          endStreams({ shutdown, authorize: (call) => authorize({ sources, isUse: false, ...call }) }),
          validateRequests(requireValid),
        ],
      });
    },
  };
}
