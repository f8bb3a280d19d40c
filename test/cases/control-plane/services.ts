import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { ApprovalService } from "../../../src/gen/latchkey/v1/approval_pb.ts";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EdgeService } from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { EndUserService } from "../../../src/gen/latchkey/v1/end_user_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IdentityService } from "../../../src/gen/latchkey/v1/identity_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { SignInService } from "../../../src/gen/latchkey/v1/sign_in_pb.ts";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { SystemService } from "../../../src/gen/latchkey/v1/system_pb.ts";
import { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";

/** All services of `latchkey.v1`. A test compares this list with the server's reflection. */
export const services: readonly DescService[] = [
  AccessSessionService,
  ApprovalService,
  AuthorityService,
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

export const methods: readonly DescMethod[] = services.flatMap((service) => service.methods);
export const pathOf = ({ parent, name }: DescMethod): string => `/${parent.typeName}/${name}`;
