import { durationMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../../base/fault.ts";
import type { Broker } from "../../../broker/broker.ts";
import { type Caller, requireKey } from "../../../broker/setup/caller.ts";
import { AccessSessionService } from "../../../gen/latchkey/v1/access_session_pb.ts";
import { callerOf, pageOf } from "../../server/context.ts";

export { AccessSessionService };

export const accessSessionService = ({
  accessSessions,
  explainAccessSession,
  environments,
}: Broker): ServiceImpl<typeof AccessSessionService> => {
  /** Returns the caller, which must be no session, and the environment that it means. */
  async function callIn(named: string, context: HandlerContext): Promise<{ caller: Caller; environment: string }> {
    const caller = callerOf(context);
    requireKey(caller);
    return { caller, environment: await environments.of(caller, named) };
  }

  return {
    async createAccessSession({ environment: named, lifetime, limits, audience, ...wanted }, context) {
      const { caller, environment } = await callIn(named, context);
      const lifetimeMs = lifetime && durationMs(lifetime);
      return accessSessions.create({ ...wanted, environment, limits, audience, lifetimeMs }, caller);
    },
    async getAccessSession({ environment: named, id }, context) {
      const { caller, environment } = await callIn(named, context);
      return { session: await accessSessions.get({ environment, id }, caller) };
    },
    async listAccessSessions({ environment: named, ended, inUse, ...request }, context) {
      const { caller, environment } = await callIn(named, context);
      const { items, next } = await accessSessions.list({ environment, ended, inUse }, pageOf(request), caller);
      return { sessions: [...items], nextPageToken: next };
    },
    async explainAccessSession({ environment: named, id }, context) {
      const { caller, environment } = await callIn(named, context);
      return explainAccessSession({ environment, id }, caller);
    },
    async endAccessSession({ environment: named, id }, context) {
      const { caller, environment } = await callIn(named, context);
      return { session: await accessSessions.end({ environment, id }, caller) };
    },
    async getCurrentAccessSession(_request, context) {
      const caller = callerOf(context);
      const { accessSession, environment } = caller;
      if (accessSession === undefined || environment === undefined) {
        throw new Fault("not_found", "this call was made with a key; send the token of an access session");
      }
      return { session: await accessSessions.get({ environment, id: accessSession.id }, caller) };
    },
  };
};
