import { create } from "@bufbuild/protobuf";
import type { Broker } from "../../broker/broker.ts";
import { requireConnectionWithin } from "../../broker/setup/caller.ts";
import { withoutDpopKey, withoutRefreshToken } from "../../core/credentials-view.ts";
import { connectionItem } from "../../core/dialect/sdk-json.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type ConnectionRef, ConnectionRefSchema, EndUserSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { RouteAnswer } from "../server/routes.ts";
import { inBody, type RefuseField } from "./body-fields.ts";
import { choiceRoutes } from "./choice-routes.ts";
import { connectionImport } from "./connection-import.ts";
import { fullConnection } from "./connection-json.ts";
import { endUserField, endUserOf } from "./end-user-field.ts";
import type { ValuesOf } from "./field-shape.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "./json-route.ts";
import { inQuery } from "./query-fields.ts";
import { revocationJson } from "./revocation-json.ts";

/** The largest page of `GET /connections`, and the default when the caller sets no limit. */
const maxPage = 2_000;
const maxPageBytes = 16 * 1024 * 1024;

const listQuery = {
  limit: inQuery.integer({ min: 1, max: maxPage }),
  page: inQuery.integer({ min: 0, max: 1_000_000 }),
  cursor: inQuery.text,
  integrationId: inQuery.list,
  connectionId: inQuery.text,
  search: inQuery.text,
  tags: inQuery.map,
  // Filters from before tags existed.
  endUserId: inQuery.optionalText,
  endUserOrganizationId: inQuery.optionalText,
};
const oneQuery = { provider_config_key: inQuery.requiredText };
const deleteQuery = { ...oneQuery, keep_grant: inQuery.choice("true", "false") };
const getQuery = {
  ...oneQuery,
  credentials: inQuery.flag(true),
  force_refresh: inQuery.flag(),
  refresh_token: inQuery.flag(),
  // Accepted, since SDKs send it; Latchkey renews such tokens in any case.
  refresh_github_app_jwt_token: inQuery.flag(),
};
const changeBody = { tags: inBody.textMap, webhook_url_override: inBody.text, end_user: endUserField };

const read = { scope: Scope.CONNECTIONS_READ } as const;
const write = { scope: Scope.CONNECTIONS_WRITE } as const;
const path = "/connections/:id";

export const connectionRoutes: readonly JsonRoute[] = [
  connectionImport,
  jsonRoute({
    ...{ ...read, method: "GET", path: "/connections" },
    query: listQuery,
    checkQuery: checkTags,
    handle: listConnections,
  }),
  jsonRoute({ ...read, method: "GET", path, query: getQuery, takesLimited: true, handle: getConnection }),
  jsonRoute({ ...write, method: "PATCH", path, query: oneQuery, body: changeBody, handle: updateConnection }),
  jsonRoute({ ...write, method: "DELETE", path, query: deleteQuery, handle: deleteConnection }),
  ...choiceRoutes,
];

async function listConnections(
  { environment, query }: JsonRequest<typeof listQuery>,
  { listing }: Broker,
): Promise<RouteAnswer> {
  const { limit: size = maxPage, page, cursor: token, integrationId: integrations, connectionId: id, search } = query;
  const tags = Object.fromEntries(tagFilters(query).map(({ key, value }) => [key, value]));
  // Clients that count pages need pages of equal length; clients that follow cursors get responses of bounded size.
  const extent = page === undefined ? { maxBytes: maxPageBytes } : { offset: page * size };
  const filter = { environment, integrations, id, search, tags, states: [] };
  const { items, next } = await listing.list(filter, { size, token, ...extent });
  const body = { connections: items.map(connectionItem), ...(next === "" ? {} : { next_cursor: next }) };
  return { status: 200, body };
}

async function getConnection(request: JsonRequest<typeof getQuery>, broker: Broker): Promise<RouteAnswer> {
  const { caller, query } = request;
  const ref = refOf(request);
  requireConnectionWithin(caller, ref);
  if (!query.credentials || !caller.scopes.has(Scope.CREDENTIALS_READ)) {
    const { value } = await broker.connections.get(ref);
    return { status: 200, body: await fullConnection(broker, value, undefined) };
  }
  const { connection, credentials } = await broker.live.get(ref, { forceRefresh: query.force_refresh });
  const shown = query.refresh_token ? credentials : withoutDpopKey(withoutRefreshToken(credentials));
  return { status: 200, body: await fullConnection(broker, connection, shown) };
}

async function updateConnection(
  request: JsonRequest<typeof oneQuery, typeof changeBody>,
  { connections }: Broker,
): Promise<RouteAnswer> {
  const { caller, body } = request;
  const { tags, webhook_url_override: webhookUrlOverride } = body;
  const endUser = endUserOf(body.end_user);
  const change = {
    ...(tags === undefined ? {} : { tags }),
    ...(webhookUrlOverride === undefined ? {} : { webhookUrlOverride }),
    ...(endUser === undefined ? {} : { endUser: { value: create(EndUserSchema, endUser) } }),
  };
  await connections.update({ ref: refOf(request), expectedRevision: 0n, ...change }, caller);
  return { status: 200, body: { success: true } };
}

async function deleteConnection(
  request: JsonRequest<typeof deleteQuery>,
  { connections }: Broker,
): Promise<RouteAnswer> {
  const { keep_grant: keep } = request.query;
  const keepGrant = keep === undefined ? undefined : keep === "true";
  const revocation = await connections.delete({ ref: refOf(request), expectedRevision: 0n, keepGrant }, request.actor);
  const told = revocation === undefined ? {} : { revocation: revocationJson(revocation) };
  return { status: 200, body: { success: true, ...told } };
}

/** Returns the connection that the path and `provider_config_key` name. */
function refOf({
  environment,
  params,
  query,
}: Pick<JsonRequest<typeof oneQuery, NoFields>, "environment" | "params" | "query">): ConnectionRef {
  const { provider_config_key: integration } = query;
  return create(ConnectionRefSchema, { environment, integration, id: params["id"] ?? "" });
}

interface TagFilter {
  /** The parameter that the filter comes from. */
  readonly name: string;
  readonly key: string;
  readonly value: string;
}

/** Returns `tags[key]=value` and the older filters, which have tags of their own. */
function tagFilters(query: Pick<ValuesOf<typeof listQuery>, "tags" | "endUserId" | "endUserOrganizationId">) {
  const { tags, endUserId, endUserOrganizationId } = query;
  const named = Object.entries(tags).map(([key, value]) => ({ name: `tags[${key}]`, key: key.toLowerCase(), value }));
  const older = [
    { name: "endUserId", key: "end_user_id", value: endUserId },
    { name: "endUserOrganizationId", key: "organization_id", value: endUserOrganizationId },
  ];
  return [...named, ...older].filter((filter): filter is TagFilter => filter.value !== undefined);
}

/** A tag has one value, so two different values are a mistake. */
function checkTags(query: ValuesOf<typeof listQuery>, refuse: RefuseField): void {
  const values = new Map<string, string>();
  for (const { name, key, value } of tagFilters(query)) {
    if ((values.get(key) ?? value) !== value) refuse(name, `contradicts another filter on the tag ${key}`);
    values.set(key, value);
  }
}
