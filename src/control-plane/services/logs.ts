import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import { type LogFilter, logMatcher } from "../../broker/audit/log-filter.ts";
import type { Broker } from "../../broker/broker.ts";
import { LogService } from "../../gen/latchkey/v1/log_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { maxPageBytes } from "../server/page-bytes.ts";
import { pauseOf } from "../server/watch.ts";

export { LogService };

export const logService = ({ audit, logs, environments, feeds }: Broker): ServiceImpl<typeof LogService> => ({
  async getLog({ environment, id }, context) {
    return { log: await logs.get({ environment: await environments.of(callerOf(context), environment), id }) };
  },
  async listLogs({ environment: requested, logId, since, until, ...request }, context) {
    requireIntegration(request);
    const { integration, connectionId, operation, failed, text, level } = request;
    const environment = await environments.of(callerOf(context), requested);
    const times = { sinceMs: msOf(since), untilMs: msOf(until) };
    const filter = { environment, integration, connectionId, operation, failed, text, level, ...times };
    if (logId !== "") {
      const found = await logs.find({ environment, id: logId });
      const isWanted = found !== undefined && logMatcher(filter)(found);
      return { logs: isWanted ? [found] : [], nextPageToken: "" };
    }
    const { items, next } = await logs.list(filter, { ...pageOf(request), maxBytes: maxPageBytes });
    return { logs: [...items], nextPageToken: next };
  },
  async *watchLogs({ environment: requested, ...filter }, context) {
    requireIntegration(filter);
    const environment = await environments.of(callerOf(context), requested);
    for await (const step of feeds.logs({ ...filter, environment }, context.signal)) {
      yield { event: step.kind === "put" ? { case: "log" as const, value: step.value } : pauseOf(step) };
    }
  },
  async listAuditEvents({ environment, actor, action, target, text, since, until, ...request }) {
    const filter = { environment, actor, action, target, text, sinceMs: msOf(since), untilMs: msOf(until) };
    const { items, next } = await audit.list(filter, pageOf(request));
    // Events of a deleted environment can still be read.
    if (environment !== "" && items.length === 0 && next === "") await environments.get(environment);
    return { events: [...items], nextPageToken: next };
  },
  async *watchAuditEvents(filter, context) {
    if (filter.environment !== "") await environments.get(filter.environment);
    for await (const step of feeds.auditEvents(filter, context.signal)) {
      yield { event: step.kind === "put" ? { case: "auditEvent" as const, value: step.value } : pauseOf(step) };
    }
  },
});

const msOf = (at: Timestamp | undefined): number | undefined => (at === undefined ? undefined : timestampMs(at));

function requireIntegration({ integration, connectionId }: Pick<LogFilter, "integration" | "connectionId">) {
  if (connectionId === "" || integration !== "") return;
  const message = "must be given with connection_id, which names a connection of one integration";
  throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
}
