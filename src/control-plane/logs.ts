import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../broker/broker.ts";
import type { LogService } from "../gen/latchkey/v1/log_pb.ts";
import { pageOf } from "./context.ts";

export const logService = ({ audit }: Broker): Pick<ServiceImpl<typeof LogService>, "listAuditEvents"> => ({
  async listAuditEvents({ environment, actor, action, target, ...request }) {
    const { items, next } = await audit.list({ environment, actor, action, target }, pageOf(request));
    return { events: [...items], nextPageToken: next };
  },
});
