import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { ConnectSessionService } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";

export const connectSessionService = ({
  sessions,
  authorizations: { devices },
  environments,
}: Broker): ServiceImpl<typeof ConnectSessionService> => ({
  async createConnectSession({ $typeName: _, environment: requested, ...session }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    return sessions.create({ ...session, environment }, caller);
  },
  async getConnectSession({ id }, context) {
    const { environment } = callerOf(context);
    return { session: await sessions.get({ environment, id }) };
  },
  async listConnectSessions({ environment: requested, integration, ...request }, context) {
    const environment = await environments.of(callerOf(context), requested);
    const { items, next } = await sessions.list({ environment, integration }, pageOf(request));
    return { sessions: [...items], nextPageToken: next };
  },
  async deleteConnectSession({ id, expectedRevision }, context) {
    const { environment, keyId } = callerOf(context);
    await sessions.delete({ environment, id, expectedRevision }, keyId);
    return {};
  },
  async beginDeviceAuthorization({ $typeName: _, environment: requested, ...device }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    return { authorization: await devices.begin({ ...device, environment }, caller) };
  },
  async getDeviceAuthorization({ id }, context) {
    const { environment } = callerOf(context);
    return { authorization: await devices.get({ environment, id }) };
  },
});
