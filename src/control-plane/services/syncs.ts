import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";
import type { SyncRef, SyncService } from "../../gen/latchkey/v1/sync_pb.ts";
import { callerOf, connectionRefOf, pageOf } from "../server/context.ts";
import { recordMethods } from "./records.ts";
import { runMethods } from "./runs.ts";
import { scriptMethods } from "./scripts.ts";

export const syncService = (broker: Broker): ServiceImpl<typeof SyncService> => {
  const { syncs, environments } = broker;

  async function locate(ref: SyncRef | undefined, context: HandlerContext) {
    if (ref === undefined) throw new Error("a validated request names its sync");
    const connection = await connectionRefOf(environments, ref.connection, context);
    return { ref: connection, name: ref.name, variant: ref.variant || baseVariant };
  }

  return {
    ...scriptMethods(broker),
    ...runMethods(broker),
    ...recordMethods(broker),
    async listSyncs({ environment: requested, integration, connectionId, names, ...request }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const filter = { environment, integration, connectionId, names };
      const { items, next } = await syncs.list(filter, pageOf(request));
      return { syncs: [...items], nextPageToken: next };
    },
    async triggerSync({ environment: requested, integration, connectionId, names, mode }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      const runIds = await syncs.trigger({ environment, integration, connectionId, names, mode }, caller.keyId);
      return { runIds: [...runIds] };
    },
    async startSync({ ref, expectedRevision }, context) {
      const located = await locate(ref, context);
      return { sync: await syncs.start({ ...located, expectedRevision }, callerOf(context).keyId) };
    },
    async pauseSync({ ref, expectedRevision }, context) {
      const located = await locate(ref, context);
      return { sync: await syncs.pause({ ...located, expectedRevision }, callerOf(context).keyId) };
    },
    async setSyncFrequency({ ref, frequency, expectedRevision }, context) {
      const located = await locate(ref, context);
      return { sync: await syncs.setFrequency({ ...located, frequency, expectedRevision }, callerOf(context).keyId) };
    },
  };
};
