import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import type { ConnectionCalls } from "./connection-calls.ts";

type DeletionMethods = Pick<ServiceImpl<typeof ConnectionService>, "deleteConnection" | "listRevocations">;

/** The methods that delete a connection, and show what became of its grant. */
export const deletionMethods = (broker: Broker, { refOf }: ConnectionCalls): DeletionMethods => ({
  async deleteConnection({ ref: requested, expectedRevision, keepGrant }, context) {
    const caller = callerOf(context);
    const ref = await refOf(caller, requested);
    const revocation = await broker.connections.delete({ ref, expectedRevision, keepGrant }, caller.keyId);
    return revocation === undefined ? {} : { revocation };
  },
  async listRevocations({ environment: requested, pageSize, pageToken, ...filter }, context) {
    const environment = await broker.environments.of(callerOf(context), requested);
    const page = pageOf({ pageSize, pageToken });
    const { items, next } = await broker.listRevocations({ ...filter, environment }, page);
    return { revocations: [...items], nextPageToken: next };
  },
});
