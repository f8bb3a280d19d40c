import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Hints } from "../../broker/hints.ts";
import { type Caller, requireAudience, requireScope, requireUnlimited } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { bodyOf, type FrontRequest, type FrontResponse } from "../../relay/client/incoming.ts";
import { answeredEvent, type DoorAnswers } from "./answers.ts";
import { authenticateRequest, type CallerAccess } from "./authenticate-request.ts";
import { ClientGone, readFormBody, readJsonBody, readReceived } from "./body.ts";
import type { BodyRoom } from "./body-room.ts";
import { callerOriginOf } from "./caller-origin.ts";
import type { DoorCall } from "./door-call.ts";
import type { HeadCheck } from "./heads.ts";
import type { IgnoredFields } from "./ignored-fields.ts";
import { readQuery } from "./query.ts";
import type { RefusalLog } from "./refusal-log.ts";
import type { DoorCount } from "./request-count.ts";
import { type Match, patternOf, type Route, type RouteAnswer, type Router } from "./routes.ts";
import type { DoorSockets } from "./sockets.ts";

interface RouteRequestsOptions {
  /** Name of the listener. */
  readonly listener: string;
  readonly router: Router;
  readonly access: Pick<CallerAccess, "authenticate" | "callerOfPeer">;
  readonly heads: Pick<HeadCheck, "check" | "targetOf">;
  readonly answers: Pick<DoorAnswers, "showTo" | "answer" | "distrust" | "fault" | "options">;
  readonly count: DoorCount;
  readonly refusals: Pick<RefusalLog, "page">;
  readonly sockets: Pick<DoorSockets, "forget">;
  readonly room: BodyRoom;
  /** Whether browsers may use the listener. */
  readonly hasPages: boolean;
  readonly limits: { readonly jsonBodyBytes: number; readonly webhookBodyBytes: number };
  /** Undefined: no hints. */
  readonly hints: Hints | undefined;
  readonly ignored: IgnoredFields;
  /** Read at each request: `dev` sets it after the start. */
  readonly fieldRules: FieldRules;
}

/** Rules for fields that a route does not know. */
export interface FieldRules {
  refusesMisspelled: boolean;
}

interface MatchedCall extends DoorCall {
  readonly setCaller: (caller: Caller | undefined) => void;
  readonly match: Match;
  readonly query: string;
}

/** Returns the function that answers requests with the listener's routes. The function never rejects. */
export function createRouteRequests(options: RouteRequestsOptions): (call: DoorCall) => Promise<void> {
  const {
    listener,
    router,
    access,
    heads,
    answers,
    count,
    refusals,
    sockets,
    room,
    hasPages,
    limits,
    hints,
    ignored,
    fieldRules,
  } = options;

  function callerOf({ callerWith }: Route, request: FrontRequest): Caller | Promise<Caller> {
    const secret = bearerOf(request);
    const own = secret === undefined ? undefined : callerWith?.(secret);
    return own ?? authenticateRequest(access, { secret, head: request });
  }

  /** Reads the body in the way the route takes it, and calls the route. */
  async function run({ request, response, proceed, match, query: rawQuery, setCaller }: MatchedCall): Promise<void> {
    const { route, params } = match;
    const reading = { maxBytes: limits.jsonBodyBytes, proceed };
    const caller = route.scope === undefined ? undefined : await callerOf(route, request);
    setCaller(caller);
    if (caller !== undefined && route.scope !== undefined) requireScope(caller, route.scope);
    if (caller !== undefined && route.takesLimited !== true) requireUnlimited(caller);
    if (caller?.accessSession !== undefined) requireAudience(caller, callerOriginOf(request, listener));
    await route.admit?.(params);
    const body: JsonObject =
      route.takesBody === true || (route.takesBody === "optional" && bodyOf(request) !== "none")
        ? await readJsonBody(request, reading)
        : route.takesBody === "form"
          ? await readFormBody(request, reading)
          : {};
    const received =
      route.takesBody === "raw"
        ? await readReceived(request, { query: rawQuery, maxBytes: limits.webhookBodyBytes, proceed, room })
        : undefined;
    const { refusesMisspelled } = fieldRules;
    const query = readQuery(rawQuery, refusesMisspelled && route.scope !== undefined);
    const unknown: string[] = [];
    const fields = { refusesMisspelled, ignore: (names: readonly string[]) => void unknown.push(...names) };
    const { headers, method = "", url: target = "" } = request;
    const leaving = () => leavingOf(response);
    const input = { caller, method, params, query, rawQuery, target, body, received, headers, fields, leaving };
    const answer = await Promise.resolve(route.answer(input)).finally(() => room.give(received?.body.length ?? 0));
    if (received === undefined) unknown.push(...query.end());
    const names = ignored.report(route.path, unknown);
    answers.answer({ request, response }, withHeaders(answer, names));
  }

  return async ({ request, response, proceed }) => {
    const since = performance.now();
    count.begin();
    let route = "none";
    const onAnswered = () => {
      response.off("close", onAnswered).off(answeredEvent, onAnswered);
      sockets.forget(response);
      count.end({ route, status: response.statusCode, since });
    };
    response.once("close", onAnswered).once(answeredEvent, onAnswered);
    let match: Match | undefined;
    let caller: Caller | undefined;
    try {
      const page = heads.check(request, hasPages ? browserOf(router, request) : undefined);
      if (page !== undefined) answers.showTo(request, page);
      const { path, query } = heads.targetOf(request);
      if (request.method === "OPTIONS" && !router.takesAny(path)) {
        answers.options({ request, response }, path === "*" ? undefined : [...router.allowed(path), "OPTIONS"]);
        return;
      }
      match = router.match(request.method ?? "", path);
      route = patternOf(match);
      await run({ request, response, proceed, match, query, setCaller: (found) => (caller = found) });
    } catch (error) {
      if (error instanceof ClientGone || response.destroyed) return;
      const fault = faultOfStore(error);
      answers.distrust(request, fault);
      await hints?.add(fault, caller);
      refusals.page(request, fault);
      answers.fault({ request, response }, fault, match?.route.faultPage);
    }
  };
}

/** Pages get no such header: it is for programs. */
function withHeaders(answer: RouteAnswer, fields: Readonly<Record<string, string>> | undefined): RouteAnswer {
  if (fields === undefined || answer.headers?.["content-type"] !== undefined) return answer;
  return { ...answer, headers: { ...answer.headers, ...fields } };
}

/**
 * Returns how other sites' pages may use the route. Browsers send a preflight before a request that no form could send.
 */
function browserOf(router: Router, { method = "", url = "", headers }: FrontRequest): Route["browser"] {
  const [path = ""] = url.split("?", 1);
  const requestedMethod = headers["access-control-request-method"];
  const isPreflight = method === "OPTIONS" && typeof requestedMethod === "string";
  const browser = router.find(isPreflight ? requestedMethod : method, path)?.route.browser;
  return isPreflight && browser !== "script" ? undefined : browser;
}

/** Returns the secret of a request; undefined if it has none. */
function bearerOf({ headers: { authorization } }: FrontRequest): string | undefined {
  if (authorization === undefined) return undefined;
  const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? [];
  if (secret !== undefined) return secret;
  throw new Fault("malformed_auth_header", "the Authorization header must be: Bearer <key>");
}

function leavingOf(response: FrontResponse): AbortSignal {
  const leaving = new AbortController();
  if (response.destroyed) leaving.abort();
  else response.once("close", () => leaving.abort());
  return leaving.signal;
}
