import { create, type JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { withoutDpopKey, withoutRefreshToken } from "../../core/credentials-view.ts";
import { ImportMistake, readEndUserJson, readImportJson } from "../../core/dialect/import-line.ts";
import { type ReadingNotes, readFields } from "../../core/dialect/json-fields.ts";
import { connectionFull, connectionItem } from "../../core/dialect/sdk-json.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Connection, ConnectionRefSchema, EndUserSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { QueryReader } from "../server/query.ts";
import { callerIn, type Route, type RouteRequest } from "../server/routes.ts";

/** The largest page of `GET /connections`, and the default when the caller sets no limit. */
const maxPage = 2_000;
const maxPageBytes = 16 * 1024 * 1024;

export function connectionRoutes(broker: Broker): Route[] {
  const { connections, environments, imports, listing, live } = broker;

  async function full(connection: Connection, credentials: Parameters<typeof connectionFull>[1]) {
    const [shown = connection] = await connections.withLastUse([connection]);
    return connectionFull(shown, credentials);
  }

  return [
    {
      method: "POST",
      path: "/connections",
      scope: Scope.CONNECTIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const { actor, environment, caller } = callerIn(request);
        if (request.query.end() > 0) throw new Fault("invalid_query_params", "the query must be empty");
        const { connection: item } = readImport(request.body, broker);
        // A file written for several environments names one on each line; a key opens only one environment.
        await environments.of(caller, item.environment);
        const { connection } = await imports.importOne({ ...item, environment }, actor);
        const mayRead = caller.scopes.has(Scope.CREDENTIALS_READ);
        return { status: 201, body: await full(connection, mayRead ? item.credentials : undefined) };
      },
    },
    {
      method: "GET",
      path: "/connections",
      scope: Scope.CONNECTIONS_READ,
      async answer(request) {
        const { environment } = callerIn(request);
        const { query } = request;
        const size = query.integer("limit", { min: 1, max: maxPage }) ?? maxPage;
        const page = query.integer("page", { min: 0, max: 1_000_000 });
        const token = query.text("cursor") ?? "";
        const wanted = {
          environment,
          integrations: query.list("integrationId"),
          id: query.text("connectionId") ?? "",
          search: query.text("search") ?? "",
          tags: tagFilter(query),
          states: [],
        };
        query.end();
        // Clients that count pages need pages of equal length; clients that follow cursors get responses of bounded
        // size.
        const extent = page === undefined ? { maxBytes: maxPageBytes } : { offset: page * size };
        const { items, next } = await listing.list(wanted, { size, token, ...extent });
        const body = { connections: items.map(connectionItem), ...(next === "" ? {} : { next_cursor: next }) };
        return { status: 200, body };
      },
    },
    {
      method: "GET",
      path: "/connections/:id",
      scope: Scope.CONNECTIONS_READ,
      async answer(request) {
        const { caller } = callerIn(request);
        const { query } = request;
        const ref = refOf(request);
        const wanted = query.flag("credentials", true);
        const forceRefresh = query.flag("force_refresh");
        const withRefreshToken = query.flag("refresh_token");
        query.flag("refresh_github_app_jwt_token");
        query.end();
        if (!wanted || !caller.scopes.has(Scope.CREDENTIALS_READ)) {
          return { status: 200, body: await full((await connections.get(ref)).value, undefined) };
        }
        const { connection, credentials } = await live.get(ref, { forceRefresh });
        return {
          status: 200,
          body: await full(
            connection,
            withRefreshToken ? credentials : withoutDpopKey(withoutRefreshToken(credentials)),
          ),
        };
      },
    },
    {
      method: "PATCH",
      path: "/connections/:id",
      scope: Scope.CONNECTIONS_WRITE,
      takesBody: true,
      async answer(request) {
        const { caller } = callerIn(request);
        const ref = refOf(request);
        request.query.end();
        await connections.update({ ref, expectedRevision: 0n, ...readChange(request.body, broker) }, caller);
        return { status: 200, body: { success: true } };
      },
    },
    {
      method: "DELETE",
      path: "/connections/:id",
      scope: Scope.CONNECTIONS_WRITE,
      async answer(request) {
        const { actor } = callerIn(request);
        const ref = refOf(request);
        request.query.end();
        await connections.delete({ ref, expectedRevision: 0n }, actor);
        return { status: 200, body: { success: true } };
      },
    },
  ];
}

/** Returns the connection that the path and `provider_config_key` name. */
function refOf(request: RouteRequest) {
  const { environment } = callerIn(request);
  const integration = request.query.text("provider_config_key");
  if (integration === undefined) {
    request.query.refuse("provider_config_key", "is required");
    request.query.end();
  }
  return create(ConnectionRefSchema, { environment, integration: integration ?? "", id: request.params["id"] ?? "" });
}

/** Filters from before tags existed, and the names of their tags. */
const mirroredFilters = { endUserId: "end_user_id", endUserOrganizationId: "organization_id" } as const;

/** Reads `tags[key]=value` and the mirrored filters. A key has one value, so two different values are a mistake. */
function tagFilter(query: QueryReader): Record<string, string> {
  const tags = Object.entries(query.map("tags")).map(([key, value]) => [`tags[${key}]`, key.toLowerCase(), value]);
  const mirrored = Object.entries(mirroredFilters).map(([name, key]) => [name, key, query.text(name)]);
  const wanted = new Map<string, string>();
  for (const [name = "", key = "", value] of [...tags, ...mirrored]) {
    if (value === undefined) continue;
    if ((wanted.get(key) ?? value) !== value) query.refuse(name, `asks for another value of the tag ${key} as well`);
    wanted.set(key, value);
  }
  return Object.fromEntries(wanted);
}

function readImport(body: JsonObject, { countIgnored }: Broker) {
  try {
    const read = readImportJson(body);
    countIgnored("/connections", read.ignored.length);
    return read;
  } catch (error) {
    if (!(error instanceof ImportMistake)) throw error;
    throw new Fault("invalid_body", "the connection is not valid", { mistakes: error.mistakes });
  }
}

function readChange(body: JsonObject, { countIgnored }: Broker) {
  const findings: ReadingNotes = { mistakes: [], ignored: [] };
  const fields = readFields(body, { path: [], findings });
  const tags = fields.textMap("tags");
  const webhookUrlOverride = fields.text("webhook_url_override");
  const endUser = readEndUserJson(fields.object("end_user"));
  fields.ignoreRest();
  if (findings.mistakes.length > 0) {
    throw new Fault("invalid_body", "the change is not valid", { mistakes: findings.mistakes });
  }
  countIgnored("/connections/:id", findings.ignored.length);
  return {
    ...(tags === undefined ? {} : { tags }),
    ...(webhookUrlOverride === undefined ? {} : { webhookUrlOverride }),
    ...(endUser === undefined ? {} : { endUser: { value: create(EndUserSchema, endUser) } }),
  };
}
