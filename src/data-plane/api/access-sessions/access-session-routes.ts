import { type DescMessage, fromJson, type JsonObject, type MessageShape } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import type { Broker } from "../../../broker/broker.ts";
import { requireKey } from "../../../broker/setup/caller.ts";
import { scopesByName } from "../../../core/scopes.ts";
import { AccessLimitsSchema, Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { AccessAudienceSchema } from "../../../gen/latchkey/v1/access_session_pb.ts";
import type { RouteAnswer } from "../../server/routes.ts";
import { inBody, invalidBody } from "../body-fields.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "../json-route.ts";
import { inQuery } from "../query-fields.ts";
import { accessSessionJson } from "./access-session-json.ts";

const createBody = {
  limits: inBody.requiredJson,
  allow_several: inBody.flag,
  scopes: inBody.texts,
  audience: inBody.json,
  expires_in: inBody.integer({ min: 0, max: 2_592_000, fallback: 0 }),
  budget: inBody.integer({ min: 0, max: 1_000_000_000_000, fallback: 0 }),
  label: inBody.boundedText(100),
  shorten: inBody.flag,
};
const listQuery = {
  state: inQuery.choice("active", "ended"),
  limit: inQuery.integer({ min: 1, max: 1_000 }),
  cursor: inQuery.text,
};
const read = { method: "GET", scope: Scope.CONNECTIONS_READ, takesLimited: true } as const;
const write = { scope: Scope.CONNECTIONS_WRITE, takesLimited: true } as const;
const path = "/access-sessions";

/** Routes for access sessions: short-lived tokens for named connections. */
export const accessSessionRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...write, method: "POST", path, body: createBody, handle: createSession }),
  jsonRoute({ ...read, path, query: listQuery, handle: listSessions }),
  jsonRoute({ ...read, path: `${path}/current`, scope: Scope.UNSPECIFIED, handle: getCurrent }),
  jsonRoute({ ...read, path: `${path}/:id`, handle: getSession }),
  jsonRoute({ ...write, method: "DELETE", path: `${path}/:id`, handle: endSession }),
];

async function createSession(
  { caller, environment, body }: JsonRequest<NoFields, typeof createBody>,
  { accessSessions }: Broker,
): Promise<RouteAnswer> {
  requireKey(caller);
  const { expires_in: seconds, budget, label = "" } = body;
  const wanted = {
    environment,
    limits: messageIn(AccessLimitsSchema, body.limits, "limits"),
    allowSeveral: body.allow_several ?? false,
    scopes: body.scopes.map(scopeIn),
    audience: body.audience && messageIn(AccessAudienceSchema, body.audience, "audience"),
    lifetimeMs: seconds === 0 ? undefined : seconds * 1_000,
    budget: BigInt(budget),
    label,
    shorten: body.shorten ?? false,
  };
  const { session, token } = await accessSessions.create(wanted, caller);
  return { status: 201, body: { data: { token, ...accessSessionJson(session) } } };
}

async function listSessions(
  { caller, environment, query }: JsonRequest<typeof listQuery>,
  { accessSessions }: Broker,
): Promise<RouteAnswer> {
  requireKey(caller);
  const { state, limit: size = 100, cursor: token } = query;
  const { items, next } = await accessSessions.list({ environment, ended: state === "ended" }, { size, token }, caller);
  const body = { sessions: items.map(accessSessionJson), ...(next === "" ? {} : { next_cursor: next }) };
  return { status: 200, body };
}

async function getCurrent({ caller, environment }: JsonRequest, { accessSessions }: Broker): Promise<RouteAnswer> {
  const { accessSession } = caller;
  if (accessSession === undefined) {
    throw new Fault("not_found", "this request was sent with a key; send the token of an access session");
  }
  const session = await accessSessions.get({ environment, id: accessSession.id }, caller);
  return { status: 200, body: { data: accessSessionJson(session) } };
}

async function getSession({ caller, environment, params }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  requireKey(caller);
  const session = await broker.accessSessions.get({ environment, id: params["id"] ?? "" }, caller);
  return { status: 200, body: { data: accessSessionJson(session) } };
}

async function endSession({ caller, environment, params }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  requireKey(caller);
  const session = await broker.accessSessions.end({ environment, id: params["id"] ?? "" }, caller);
  return { status: 200, body: { data: accessSessionJson(session) } };
}

function messageIn<S extends DescMessage>(schema: S, json: JsonObject, field: string): MessageShape<S> {
  try {
    return fromJson(schema, json);
  } catch (cause) {
    const known = schema.fields.map(({ name }) => name).join(", ");
    throw new Fault("invalid_body", `the body is not valid: ${field} must be an object of lists: ${known}`, {
      cause,
      mistakes: [{ path: [field], message: `must be an object of lists: ${known}` }],
    });
  }
}

function scopeIn(name: string, at: number): Scope {
  const scope = scopesByName.get(name);
  if (scope === undefined)
    throw invalidBody("must be proxy, syncs, connections:read or connections:write", ["scopes", String(at)]);
  return scope;
}
