import type { DescService } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import type { SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import type { ConfigInForce } from "../../core/config-in-force.ts";
import { ChannelService } from "../../gen/latchkey/v1/channel_pb.ts";
import { ConnectSessionService } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { SystemService } from "../../gen/latchkey/v1/system_pb.ts";
import { WebhookService } from "../../gen/latchkey/v1/webhook_pb.ts";
import { type ServedService, serve } from "../server/method-handlers.ts";
import type { RequireValid } from "../server/validate.ts";
import { AccessSessionService, accessSessionService } from "./access/access-sessions.ts";
import { ApprovalService, approvalService } from "./access/approvals.ts";
import { IdentityService, identityService } from "./access/identities.ts";
import { AuthorityService, authorityService } from "./authority.ts";
import { channelService } from "./channels.ts";
import { connectSessionService } from "./connect-sessions.ts";
import { connectionService, manyConnections } from "./connections.ts";
import { EdgeService, edgeService } from "./edges.ts";
import { EndUserService, endUserService } from "./end-users.ts";
import { environmentService } from "./environments.ts";
import { integrationService } from "./integrations.ts";
import { LogService, logService } from "./logs.ts";
import { PolicyService, policyService } from "./policies/policies.ts";
import { providerService } from "./providers.ts";
import { SignInService, signInService } from "./sign-in.ts";
import { StoreService, storeService } from "./store.ts";
import { syncService } from "./syncs.ts";
import { systemService } from "./system.ts";
import { TrafficService, trafficService } from "./traffic.ts";
import { webhookService } from "./webhooks.ts";

/** All services of the control plane. A method without an implementation returns `not_implemented`. */
export const services: readonly DescService[] = [
  AuthorityService,
  AccessSessionService,
  ApprovalService,
  ChannelService,
  ConnectSessionService,
  ConnectionService,
  EdgeService,
  EndUserService,
  EnvironmentService,
  IdentityService,
  IntegrationService,
  LogService,
  PolicyService,
  ProviderService,
  SignInService,
  StoreService,
  SyncService,
  SystemService,
  TrafficService,
  WebhookService,
];

interface ServiceParts {
  readonly config: ConfigInForce;
  readonly requireValid: RequireValid;
  readonly sendToProvider: SendToProvider;
  /** Address of the forward proxy; undefined: it is off. */
  readonly forwardProxy: string | undefined;
}

/** Implements the services with a broker. */
export const implementServices = (
  broker: Broker,
  { config, requireValid, sendToProvider, forwardProxy }: ServiceParts,
): readonly ServedService[] => [
  serve(AccessSessionService, accessSessionService(broker)),
  serve(ApprovalService, approvalService(broker)),
  serve(EnvironmentService, environmentService(broker)),
  serve(AuthorityService, authorityService(broker, forwardProxy)),
  serve(ProviderService, providerService(broker)),
  serve(IntegrationService, integrationService(broker)),
  serve(ConnectionService, connectionService(broker, requireValid), manyConnections(broker, requireValid)),
  serve(EdgeService, edgeService(broker)),
  serve(IdentityService, identityService(broker)),
  serve(EndUserService, endUserService(broker)),
  serve(ChannelService, channelService(broker)),
  serve(SyncService, syncService(broker)),
  serve(ConnectSessionService, connectSessionService(broker)),
  serve(LogService, logService(broker)),
  serve(PolicyService, policyService(broker)),
  serve(SignInService, signInService(broker)),
  serve(StoreService, storeService(broker)),
  serve(SystemService, systemService(broker, config)),
  serve(TrafficService, trafficService(broker, sendToProvider)),
  serve(WebhookService, webhookService(broker)),
];
