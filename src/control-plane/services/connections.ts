import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ConnectionUpdate } from "../../broker/connections/connection-updates.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { noteReveal } from "../../broker/setup/reveals.ts";
import { withoutRefreshToken } from "../../core/credentials-view.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  type Connection,
  type ConnectionService,
  ListConnectionsRequest_Order as Order,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import type { SecondMethod } from "../server/method-handlers.ts";
import { maxPageBytes } from "../server/page-bytes.ts";
import type { RequireValid } from "../server/validate.ts";
import { markerOf, watcherOf } from "../server/watch.ts";
import { choiceMethods } from "./choices.ts";
import { batchMethods } from "./connection-batches.ts";
import { createConnectionCalls } from "./connection-calls.ts";
import { countedConnections } from "./connection-counts.ts";
import { deletionMethods } from "./connection-deletions.ts";
import { trialMethods } from "./connection-trials.ts";
import { binaryImports, importMethods } from "./imports/imports.ts";

/** Its methods for many small messages. */
export const manyConnections = (broker: Broker, requireValid: RequireValid): readonly SecondMethod[] =>
  binaryImports(broker, requireValid);

type ConnectionMethods = ServiceImpl<typeof ConnectionService>;

export const connectionService = (broker: Broker, requireValid: RequireValid): ConnectionMethods => {
  const { connections, listing, live, environments, feeds, audit } = broker;
  const calls = createConnectionCalls(broker, requireValid);
  const { refOf, shown } = calls;

  return {
    ...importMethods(broker, requireValid),
    ...batchMethods(broker, calls, requireValid),
    ...trialMethods(broker, calls),
    ...deletionMethods(broker, calls),
    ...choiceMethods(broker, calls),
    async getConnection({ ref: requested, includeCredentials, includeRefreshToken }, context) {
      const caller = callerOf(context);
      const ref = await refOf(caller, requested);
      if (!includeCredentials) return { connection: await shown((await connections.get(ref)).value) };
      requireScope(caller, Scope.CREDENTIALS_READ);
      const { connection, credentials } = await live.get(ref);
      const targets = [`${ref.integration}/${ref.id}`];
      await noteReveal(audit, caller, { action: "credentials.reveal", environment: ref.environment, targets });
      return {
        connection: await shown(connection),
        credentials: includeRefreshToken ? credentials : withoutRefreshToken(credentials),
      };
    },
    async countConnections({ environment: requested, integrations }, context) {
      const environment = await environments.of(callerOf(context), requested);
      return countedConnections(broker.census, { environment, integrations, states: [], reasons: [] });
    },
    async listConnections({ environment: requested, filter, order: preferred, ...request }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const {
        integrations = [],
        id = "",
        tags = {},
        states = [],
        search = "",
        reasons = [],
        idPrefix = "",
      } = filter ?? {};
      const query = { environment, integrations, id, tags, states, search, reasons, idPrefix };
      const page = { ...pageOf(request), maxBytes: maxPageBytes, isNewestFirst: preferred === Order.NEWEST_FIRST };
      const { items, next, isNewestFirst } = await listing.list(query, page);
      const total = listing.total(query);
      return {
        connections: [...(await connections.withLastUse(items))],
        nextPageToken: next,
        order: isNewestFirst ? Order.NEWEST_FIRST : Order.UNSPECIFIED,
        ...(total === undefined ? {} : { totalSize: total }),
      };
    },
    async updateConnection({ connection, updateMask, expectedRevision }, context) {
      if (connection === undefined) throw new Error("a validated request holds its connection");
      const caller = callerOf(context);
      const ref = await refOf(caller, connection.ref);
      const change = changeOf(connection, updateMask?.paths ?? []);
      return { connection: await shown(await connections.update({ ref, expectedRevision, ...change }, caller)) };
    },
    async updateMetadata(request, context) {
      return { connection: await calls.updateMetadata(callerOf(context), request) };
    },
    async *watchConnections({ environment: requested, integration, fromRevision, changesOnly }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const under = integration === "" ? [environment] : [environment, integration];
      const request = { under, from: Number(fromRevision), changesOnly, ...watcherOf(context) };
      for await (const step of feeds.connections(request)) {
        if (step.kind === "put") yield { event: { case: "put" as const, value: calls.withChoices(step.value) } };
        else if (step.kind === "deleted") {
          const [, key = "", id = ""] = step.parts;
          const ref = { environment, integration: key, id };
          yield { event: { case: "deleted" as const, value: { ref, revision: BigInt(step.revision) } } };
        } else yield { event: { case: "marker" as const, value: markerOf(step) } };
      }
    },
  };
};

function changeOf(
  connection: Connection,
  paths: readonly string[],
): Omit<ConnectionUpdate, "ref" | "expectedRevision"> {
  const { tags, endUser, connectionConfig = {}, webhookUrlOverride } = connection;
  const parts = {
    tags: { tags },
    end_user: { endUser: { value: endUser } },
    connection_config: { connectionConfig },
    webhook_url_override: { webhookUrlOverride },
  };
  const unknown = paths.filter((path) => !Object.hasOwn(parts, path));
  if (unknown.length > 0 || paths.length === 0) {
    const message =
      paths.length === 0 ? "the update mask must name a field" : `cannot be changed: ${unknown.join(", ")}`;
    throw new Fault("invalid_body", message, { mistakes: [{ path: ["update_mask"], message }] });
  }
  return Object.assign({}, ...paths.map((path) => parts[path as keyof typeof parts])) as Omit<
    ConnectionUpdate,
    "ref" | "expectedRevision"
  >;
}
