import type { DescMethod } from "@bufbuild/protobuf";
import { AccessSessionService } from "../../gen/latchkey/v1/access_session_pb.ts";
import { ApprovalService } from "../../gen/latchkey/v1/approval_pb.ts";
import { AuthorityService } from "../../gen/latchkey/v1/authority_pb.ts";
import { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import { SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { TrafficService } from "../../gen/latchkey/v1/traffic_pb.ts";

/**
 * The methods that a limited key or an access session may call. Each checks the limits of its caller, mostly by
 * `connectionRefOf`. All other methods refuse such a caller.
 */
export const limitedMethods: ReadonlySet<DescMethod> = new Set<DescMethod>([
  AccessSessionService.method.createAccessSession,
  AccessSessionService.method.getAccessSession,
  AccessSessionService.method.listAccessSessions,
  AccessSessionService.method.endAccessSession,
  AccessSessionService.method.getCurrentAccessSession,
  ApprovalService.method.listApprovals,
  ApprovalService.method.getApproval,
  EnvironmentService.method.getCaller,
  AuthorityService.method.getAuthority,
  ConnectionService.method.getConnection,
  SyncService.method.runAction,
  TrafficService.method.sendRequest,
]);
