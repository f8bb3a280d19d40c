import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { LogService } from "../../gen/latchkey/v1/log_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { maxPageBytes } from "../server/page-bytes.ts";

export const logService = ({ audit, logs, environments }: Broker): ServiceImpl<typeof LogService> => ({
  async getLog({ environment, id }, context) {
    return { log: await logs.get({ environment: await environments.of(callerOf(context), environment), id }) };
  },
  async listLogs({ environment: requested, integration, connectionId, operation, failed, ...request }, context) {
    if (connectionId !== "" && integration === "") {
      const message = "must be given with connection_id, which names a connection of one integration";
      throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
    }
    const environment = await environments.of(callerOf(context), requested);
    const filter = { environment, integration, connectionId, operation, failed };
    const { items, next } = await logs.list(filter, { ...pageOf(request), maxBytes: maxPageBytes });
    return { logs: [...items], nextPageToken: next };
  },
  async listAuditEvents({ environment, actor, action, target, ...request }) {
    const { items, next } = await audit.list({ environment, actor, action, target }, pageOf(request));
    // Events of a deleted environment can still be read.
    if (environment !== "" && items.length === 0 && next === "") await environments.get(environment);
    return { events: [...items], nextPageToken: next };
  },
});
