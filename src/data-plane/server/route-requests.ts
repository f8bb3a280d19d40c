import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import type { Access } from "../../broker/setup/access.ts";
import { type Caller, requireScope } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { bodyOf, type FrontRequest } from "../../relay/client/incoming.ts";
import { answeredEvent, type DoorAnswers } from "./answers.ts";
import { ClientGone, readFormBody, readJsonBody, readReceived } from "./body.ts";
import type { BodyRoom } from "./body-room.ts";
import type { DoorCall } from "./door-call.ts";
import type { HeadCheck } from "./heads.ts";
import { readQuery } from "./query.ts";
import type { RefusalLog } from "./refusal-log.ts";
import type { DoorCount } from "./request-count.ts";
import { type Match, patternOf, type Route, type Router } from "./routes.ts";
import type { DoorSockets } from "./sockets.ts";

interface RouteRequestsOptions {
  readonly router: Router;
  readonly access: Pick<Access, "authenticate">;
  readonly heads: Pick<HeadCheck, "check" | "targetOf">;
  readonly answers: Pick<DoorAnswers, "showTo" | "answer" | "fault" | "options">;
  readonly count: DoorCount;
  readonly refusals: Pick<RefusalLog, "page">;
  readonly sockets: Pick<DoorSockets, "forget">;
  readonly room: BodyRoom;
  /** Whether browsers may use the listener. */
  readonly hasPages: boolean;
  readonly limits: { readonly jsonBodyBytes: number; readonly webhookBodyBytes: number };
  readonly metrics: Pick<Metrics, "ignoredFields">;
}

interface MatchedCall extends DoorCall {
  readonly match: Match;
  readonly query: string;
}

/** Returns the function that answers requests with the listener's routes. The function never rejects. */
export function createRouteRequests(options: RouteRequestsOptions): (call: DoorCall) => Promise<void> {
  const { router, access, heads, answers, count, refusals, sockets, room, hasPages, limits, metrics } = options;

  /** Reads the body in the way the route takes it, and calls the route. */
  async function run({ request, response, proceed, match, query: rawQuery }: MatchedCall): Promise<void> {
    const { route, params } = match;
    const reading = { maxBytes: limits.jsonBodyBytes, proceed };
    const caller = route.scope === undefined ? undefined : await authenticate(access, request);
    if (caller !== undefined && route.scope !== undefined) requireScope(caller, route.scope);
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
    const query = readQuery(rawQuery);
    const { headers, url: target = "" } = request;
    const input = { caller, params, query, rawQuery, target, body, received, headers };
    const answer = await Promise.resolve(route.answer(input)).finally(() => room.give(received?.body.length ?? 0));
    const ignored = received === undefined ? query.end() : 0;
    if (ignored > 0) metrics.ignoredFields.inc({ route: route.path }, ignored);
    answers.answer({ request, response }, answer);
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
      await run({ request, response, proceed, match, query });
    } catch (error) {
      if (error instanceof ClientGone || response.destroyed) return;
      const fault = faultOfStore(error);
      refusals.page(request, fault);
      answers.fault({ request, response }, fault, match?.route.faultPage);
    }
  };
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

function authenticate(access: Pick<Access, "authenticate">, { headers }: FrontRequest): Caller | Promise<Caller> {
  const { authorization } = headers;
  if (authorization === undefined)
    throw new Fault("missing_auth_header", "send the header Authorization: Bearer <key>");
  const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? [];
  if (secret === undefined) {
    throw new Fault("malformed_auth_header", "the Authorization header must be: Bearer <key>");
  }
  return access.authenticate(secret);
}
