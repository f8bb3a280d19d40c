/** The services of the control plane, as any other caller has them. */
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AccessSessionService } from "../../gen/latchkey/v1/access_session_pb.ts";
import { ApprovalService } from "../../gen/latchkey/v1/approval_pb.ts";
import { ChannelService } from "../../gen/latchkey/v1/channel_pb.ts";
import { ConnectSessionService } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../gen/latchkey/v1/log_pb.ts";
import { ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { SignInService } from "../../gen/latchkey/v1/sign_in_pb.ts";
import { StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import { SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { SystemService } from "../../gen/latchkey/v1/system_pb.ts";
import { TrafficService } from "../../gen/latchkey/v1/traffic_pb.ts";
import { WebhookService } from "../../gen/latchkey/v1/webhook_pb.ts";
import { faultOf } from "./fault.ts";
import { askForKey } from "./key-question.ts";
import { authorizeCall, forgetSession } from "./session.ts";

const authorize: Interceptor = (next) => async (request) => {
  authorizeCall(request.header);
  try {
    const response = await next(request);
    return response.stream ? { ...response, message: followed(response.message) } : response;
  } catch (error) {
    const fault = faultOf(error);
    // Some calls need the key itself. The person enters it, and the call is made once more with it.
    if (fault.code === "key_required" && !request.stream) {
      const answer = await withKey(fault.message, (key) => {
        request.header.set("authorization", `Bearer ${key}`);
        return next(request);
      });
      if (answer !== undefined) return answer;
    } else {
      forgetIfEnded(error);
    }
    throw error;
  }
};

function forgetIfEnded(error: unknown): void {
  if (ConnectError.from(error).code === Code.Unauthenticated) forgetSession("Your session has ended. Sign in again.");
}

/** Yields the messages of a stream. It was opened before the session ended: a page without other calls learns it here. */
async function* followed<T>(messages: AsyncIterable<T>): AsyncIterable<T> {
  try {
    yield* messages;
  } catch (error) {
    forgetIfEnded(error);
    throw error;
  }
}

/** Asks for the key until a call with it is not refused. Returns undefined if the person gives up. */
async function withKey<T>(message: string, call: (key: string) => Promise<T>): Promise<T | undefined> {
  for (let isWrong = false; ; isWrong = true) {
    const key = await askForKey(message, { isWrong });
    if (key === undefined) return undefined;
    try {
      return await call(key);
    } catch (error) {
      const { code } = faultOf(error);
      if (code === "signed_out") forgetSession("Your session has ended. Sign in again.");
      if (!["unknown_key", "malformed_auth_header", "missing_scope"].includes(code)) throw error;
    }
  }
}

const transport = createConnectTransport({
  baseUrl: window.location.origin,
  useBinaryFormat: true,
  interceptors: [authorize],
});

const clientOf = <S extends Parameters<typeof createClient>[0]>(service: S): Client<S> =>
  createClient(service, transport);

export const accessSessions = clientOf(AccessSessionService);
export const approvals = clientOf(ApprovalService);
export const channels = clientOf(ChannelService);
export const connectSessions = clientOf(ConnectSessionService);
export const connections = clientOf(ConnectionService);
export const environments = clientOf(EnvironmentService);
export const integrations = clientOf(IntegrationService);
export const logs = clientOf(LogService);
export const providers = clientOf(ProviderService);
export const signIns = clientOf(SignInService);
export const store = clientOf(StoreService);
export const syncs = clientOf(SyncService);
export const system = clientOf(SystemService);
export const traffic = clientOf(TrafficService);
export const webhooks = clientOf(WebhookService);
