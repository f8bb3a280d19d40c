import type { IncomingHttpHeaders } from "node:http";
import type { Broker } from "../../broker/broker.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { callerIn, type Method, type Route, type RouteAnswer, type RouteRequest } from "../server/routes.ts";
import { type BodySchema, type RefuseField, readBody } from "./body-fields.ts";
import type { FieldShape, ValuesOf } from "./field-shape.ts";
import { type QuerySchema, readQueryValues } from "./query-fields.ts";

/** A row of a table of JSON routes. All but `answer` is data: a generator of documentation can read the table. */
export interface JsonRoute {
  readonly method: Method;
  readonly path: string;
  /** Scope that the caller's key must have. */
  readonly scope: Scope;
  readonly query: Readonly<Record<string, FieldShape>>;
  /** Undefined: the route takes no body. */
  readonly body: Readonly<Record<string, FieldShape>> | undefined;
  readonly takesLimited?: true;
  answer(broker: Broker, request: RouteRequest): Promise<RouteAnswer> | RouteAnswer;
}

/** A request that was read by the schemas of its route. */
export interface JsonRequest<Q extends QuerySchema = NoFields, B extends BodySchema = NoFields> {
  readonly caller: Caller;
  /** The id of the caller's key. */
  readonly actor: string;
  /** Empty for a control key. */
  readonly environment: string;
  readonly params: Readonly<Record<string, string>>;
  readonly headers: IncomingHttpHeaders;
  readonly query: ValuesOf<Q>;
  readonly body: ValuesOf<B>;
}

export type NoFields = Readonly<Record<never, never>>;

interface JsonRouteRow<Q extends QuerySchema, B extends BodySchema> {
  readonly method: Method;
  readonly path: string;
  readonly scope: Scope;
  readonly query?: Q;
  readonly body?: B;
  /** Finds mistakes that concern several parameters. */
  readonly checkQuery?: (query: ValuesOf<Q>, refuse: RefuseField) => void;
  /** Finds mistakes that concern several fields. */
  readonly checkBody?: (body: ValuesOf<B>, refuse: RefuseField, headers: IncomingHttpHeaders) => void;
  /** Control keys, which belong to no environment, may use the route. */
  readonly takesControlKey?: true;
  /** `handle` checks the limits of the caller. All other routes refuse limited keys and access sessions. */
  readonly takesLimited?: true;
  readonly handle: (request: JsonRequest<Q, B>, broker: Broker) => Promise<RouteAnswer> | RouteAnswer;
}

export function jsonRoute<Q extends QuerySchema = NoFields, B extends BodySchema = NoFields>(
  row: JsonRouteRow<Q, B>,
): JsonRoute {
  const { method, path, scope, query, body, handle } = row;
  return {
    method,
    path,
    scope,
    body,
    query: query ?? {},
    ...(row.takesLimited && { takesLimited: row.takesLimited }),
    answer: (broker, request) => handle(readRequest(row, request), broker),
  };
}

/** Binds a table to the broker, for a listener. */
export const bindRoutes = (broker: Broker, table: readonly JsonRoute[]): Route[] =>
  table.map((row) => ({
    method: row.method,
    path: row.path,
    scope: row.scope,
    ...(row.body !== undefined && { takesBody: true }),
    ...(row.takesLimited && { takesLimited: row.takesLimited }),
    answer: (request) => row.answer(broker, request),
  }));

function readRequest<Q extends QuerySchema, B extends BodySchema>(
  row: JsonRouteRow<Q, B>,
  request: RouteRequest,
): JsonRequest<Q, B> {
  const { params, headers } = request;
  const { caller, actor, environment } =
    row.takesControlKey === true && request.caller !== undefined
      ? { caller: request.caller, actor: request.caller.keyId, environment: request.caller.environment ?? "" }
      : callerIn(request);
  // A row without a query has no parameters.
  const query = readQueryValues(row.query ?? ({} as Q), request.query);
  row.checkQuery?.(query, request.query.refuse);
  request.query.end();
  const body = row.body === undefined ? noValues<B>() : readBodyBy(row.body, row, request);
  return { caller, actor, environment, params, headers, query, body };
}

function readBodyBy<B extends BodySchema>(
  schema: B,
  { checkBody }: Pick<JsonRouteRow<NoFields, B>, "checkBody">,
  { body, headers, fields }: RouteRequest,
): ValuesOf<B> {
  return readBody(body, schema, fields, (read, refuse) => checkBody?.(read, refuse, headers));
}

// A route without a body has no fields.
const noValues = <B extends BodySchema>() => ({}) as ValuesOf<B>;
