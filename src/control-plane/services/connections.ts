import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ConnectionUpdate } from "../../broker/connections/connection-updates.ts";
import { type Caller, requireScope } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { withoutRefreshToken } from "../../core/credentials-view.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  type Connection,
  type ConnectionRef,
  ConnectionRefSchema,
  type ConnectionService,
  DeleteConnectionRequestSchema,
  type UpdateMetadataRequest,
  UpdateMetadataRequestSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { type BatchOutcome, eachOf } from "../server/batch.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import { maxPageBytes } from "../server/page-bytes.ts";
import type { RequireValid } from "../server/validate.ts";
import { markerOf, watcherOf } from "../server/watch.ts";
import { importMethods } from "./imports.ts";

type ConnectionMethods = ServiceImpl<typeof ConnectionService>;

export const connectionService = (broker: Broker, requireValid: RequireValid): ConnectionMethods => {
  const { connections, listing, live, environments, feeds } = broker;

  /** Fills in the environment of a ref, if the caller may access it. Batch items were not validated before. */
  async function refOf(caller: Caller, ref: ConnectionRef | undefined): Promise<ConnectionRef> {
    if (ref === undefined) throw new Fault("invalid_body", "the item does not name a connection");
    requireValid(ConnectionRefSchema, ref);
    return { ...ref, environment: await environments.of(caller, ref.environment) };
  }

  async function shown(connection: Connection): Promise<Connection> {
    const [one = connection] = await connections.withLastUse([connection]);
    return one;
  }

  async function updateMetadata(
    caller: Caller,
    { ref: asked, metadata = {}, replace, expectedRevision }: UpdateMetadataRequest,
  ) {
    const ref = await refOf(caller, asked);
    const [connection] = await connections.updateMetadata([{ ref, metadata, replace, expectedRevision }], caller.keyId);
    if (connection === undefined) throw new Error("one update has one result");
    return shown(connection);
  }

  return {
    ...importMethods(broker, requireValid),
    async getConnection({ ref: asked, includeCredentials, includeRefreshToken }, context) {
      const caller = callerOf(context);
      const ref = await refOf(caller, asked);
      if (!includeCredentials) return { connection: await shown((await connections.get(ref)).value) };
      requireScope(caller, Scope.CREDENTIALS_READ);
      const { connection, credentials } = await live.get(ref);
      return {
        connection: await shown(connection),
        credentials: includeRefreshToken ? credentials : withoutRefreshToken(credentials),
      };
    },
    async refreshConnection({ ref: asked }, context) {
      const { connection } = await live.get(await refOf(callerOf(context), asked), { forceRefresh: true });
      return { connection: await shown(connection) };
    },
    async explainRequest({ ref: asked, ...request }, context) {
      const ref = await refOf(callerOf(context), asked);
      try {
        const explained = await broker.explain({ ref, ...request });
        return {
          ...explained,
          headerNames: [...explained.headerNames],
          injected: [...explained.injected],
          dropped: [...explained.dropped],
        };
      } catch (error) {
        // A missing connection fails the call; the reason why a request would be refused is the result of the call.
        const fault = faultOfStore(error);
        if (fault.code === "internal" || fault.status === 404 || fault.status === 503) throw fault;
        return { problem: problemOf(fault) };
      }
    },
    async batchGetConnections({ refs }, context) {
      const caller = callerOf(context);
      const outcomes = await eachOf(refs, async (asked) =>
        shown((await connections.get(await refOf(caller, asked))).value),
      );
      return { results: outcomes.map((outcome, i) => getResultOf(refs[i], outcome)) };
    },
    async listConnections({ environment: asked, filter, ...request }, context) {
      const environment = await environments.of(callerOf(context), asked);
      const { integrations = [], id = "", tags = {}, states = [], search = "" } = filter ?? {};
      const query = { environment, integrations, id, tags, states, search };
      const { items, next } = await listing.list(query, { ...pageOf(request), maxBytes: maxPageBytes });
      return { connections: [...(await connections.withLastUse(items))], nextPageToken: next };
    },
    async updateConnection({ connection, updateMask, expectedRevision }, context) {
      if (connection === undefined) throw new Error("a validated request holds its connection");
      const caller = callerOf(context);
      const ref = await refOf(caller, connection.ref);
      const change = changeOf(connection, updateMask?.paths ?? []);
      return { connection: await shown(await connections.update({ ref, expectedRevision, ...change }, caller)) };
    },
    async updateMetadata(request, context) {
      return { connection: await updateMetadata(callerOf(context), request) };
    },
    async batchUpdateMetadata({ updates }, context) {
      const caller = callerOf(context);
      const outcomes = await eachOf(updates, async (update) => {
        requireValid(UpdateMetadataRequestSchema, update);
        return updateMetadata(caller, update);
      });
      return { results: outcomes.map((outcome, i) => getResultOf(updates[i]?.ref, outcome)) };
    },
    async deleteConnection({ ref: asked, expectedRevision }, context) {
      const caller = callerOf(context);
      await connections.delete({ ref: await refOf(caller, asked), expectedRevision }, caller.keyId);
      return {};
    },
    async batchDeleteConnections({ deletions }, context) {
      const caller = callerOf(context);
      const outcomes = await eachOf(deletions, async (deletion) => {
        requireValid(DeleteConnectionRequestSchema, deletion);
        const { ref: asked, expectedRevision } = deletion;
        await connections.delete({ ref: await refOf(caller, asked), expectedRevision }, caller.keyId);
      });
      return { results: outcomes.map(({ fault }, i) => ({ ...named(deletions[i]?.ref), ...problemIn(fault) })) };
    },
    async *watchConnections({ environment: asked, integration, fromRevision, changesOnly }, context) {
      const environment = await environments.of(callerOf(context), asked);
      const under = integration === "" ? [environment] : [environment, integration];
      const request = { under, from: Number(fromRevision), changesOnly, ...watcherOf(context) };
      for await (const step of feeds.connections(request)) {
        if (step.kind === "put") yield { event: { case: "put" as const, value: step.value } };
        else if (step.kind === "deleted") {
          const [, key = "", id = ""] = step.parts;
          const ref = { environment, integration: key, id };
          yield { event: { case: "deleted" as const, value: { ref, revision: BigInt(step.revision) } } };
        } else yield { event: { case: "marker" as const, value: markerOf(step) } };
      }
    },
  };
};

const named = (ref: ConnectionRef | undefined) => (ref === undefined ? {} : { ref });
const problemIn = (fault: Fault | undefined) => (fault === undefined ? {} : { problem: problemOf(fault) });

const getResultOf = (ref: ConnectionRef | undefined, outcome: BatchOutcome<Connection>) =>
  outcome.fault === undefined
    ? { ...named(ref), connection: outcome.value }
    : { ...named(ref), ...problemIn(outcome.fault) };

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
