import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { mayCallTool } from "../../broker/setup/caller.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { checkMessageHeaders, HeaderMismatch, messageHeaders } from "../../core/mcp/message-headers.ts";
import {
  type ClientProfile,
  isModernRequest,
  legacyProfile,
  modernProfile,
  type ProfileHeaders,
  progressToken,
  unableToAnswer,
  versionIn,
} from "../../core/mcp-endpoint/client-profile.ts";
import {
  type ClientMessage,
  type ClientReply,
  errorResponse,
  modernVersion,
  RpcFailure,
  type RpcId,
  readMessage,
  requestIdOf,
  resultResponse,
  rpcCodes,
} from "../../core/mcp-endpoint/protocol.ts";
import { isOwn } from "../connect/page-origin.ts";
import { callerIn, type RouteAnswer, type RouteRequest } from "../server/routes.ts";
import { type EndpointCaller, endpointCallerNow } from "./endpoint-caller.ts";
import { createEventAnswer, type EventAnswer } from "./event-answer.ts";
import { createClientQuestions } from "./input/client-questions.ts";
import { createMethods, type EndpointServices } from "./methods.ts";
import { rpcErrorBody, withRpcError } from "./rpc-faults.ts";
import type { AskClient, RpcRequest } from "./rpc-request.ts";
import { createClientLogLevels } from "./streams/client-log-levels.ts";

/** Latchkey as an MCP server: answers the messages of clients of both eras, each for itself. */
export interface McpEndpoint {
  answer(request: RouteRequest): Promise<RouteAnswer>;
  /** Opens the stream of a session of a client before 2026-07-28. */
  open(request: RouteRequest): RouteAnswer;
}

export function createMcpEndpoint(services: EndpointServices): McpEndpoint {
  const { broker, world } = services;

  /** Returns an error as the last event of a stream. */
  function failureBody(error: unknown, id: RpcId): JsonObject {
    if (error instanceof RpcFailure) return errorResponse(id, error);
    const fault = faultOfStore(error);
    if (fault.code === "internal") world.log.error("a streamed call failed unexpectedly", { err: fault.cause });
    return rpcErrorBody(fault, id);
  }

  const levels = createClientLogLevels();
  const methods = createMethods(services, levels);
  const questions = createClientQuestions(broker, world.now);

  /** Takes an answer to a question. Nothing follows from a notification: each request is a whole. */
  async function accept(message: ClientReply | NotificationMessage, request: RouteRequest): Promise<RouteAnswer> {
    const given = profileHeadersOf(request.headers);
    if (message.kind === "response") {
      if (given.version === modernVersion) {
        throw new RpcFailure(rpcCodes.invalidRequest, "send requests and notifications alone", { status: 400 });
      }
      await questions.take(message, { caller: endpointCaller(request, broker), client: legacyProfile(given) });
    }
    return { status: 202, body: undefined };
  }

  const askOn =
    ({ ask }: EventAnswer, { caller, client }: Pick<RpcRequest, "caller" | "client">): AskClient =>
    async (requests) => {
      const answers = await questions.ask({ caller, client, send: ask }, requests);
      return { answers, caller: endpointCallerNow(broker.access, caller) };
    };

  async function respond(request: RouteRequest): Promise<RouteAnswer> {
    const { body, headers } = request;
    const message = readMessage(body);
    const profileHeaders = profileHeadersOf(headers);
    if (message.kind !== "request") return accept(message, request);
    const { method, params, id } = message;
    const isModern = isModernRequest(params, profileHeaders);
    checkHeaders(headers, message);
    const isStream = takesEvents(headers);
    const client = isModern ? modernProfile(params) : legacyClient(profileHeaders, isStream);
    const caller = endpointCaller(request, broker);
    const token = progressToken(params);
    const least = levels.of({ client, caller });
    const canAsk = !isModern && Object.values(client.abilities).includes(true);
    const wantsEvents = token !== undefined || least !== undefined || canAsk;
    const events = wantsEvents && isStream ? createEventAnswer({ token, least }) : undefined;
    const askClient = canAsk && events !== undefined ? askOn(events, { caller, client }) : undefined;
    // Before 2026-07-28, a client that leaves may want its answer all the same.
    const ended = () => (isModern ? caller.leaving() : undefined);
    const watch = { noteProgress: events?.watch.noteProgress, noteLine: events?.watch.noteLine, ended };
    const answered = methods
      .answer({ method, params, client, caller, watch, id, takesEvents: isStream, askClient })
      .then(
        ({ result, headers: further, stream }): RouteAnswer =>
          stream === undefined
            ? { status: 200, body: resultResponse(id, result), ...(further && { headers: further }) }
            : { status: 200, body: undefined, headers: eventStream, stream, isEndless: true },
      );
    return events === undefined ? answered : events.resolve(answered, (error) => failureBody(error, id));
  }

  function openStream(request: RouteRequest): RouteAnswer {
    const given = profileHeadersOf(request.headers);
    const session = given.sessionId === undefined ? undefined : legacyProfile(given);
    if (session === undefined || session.session === "") {
      throw new Fault("method_not_allowed", "the method must be POST, or GET with a session before 2026-07-28", {
        metadata: { allow: "POST" },
      });
    }
    if (!takesEvents(request.headers)) throw notAcceptable();
    const stream = methods.openStream({ caller: endpointCaller(request, broker), client: session });
    return { status: 200, body: undefined, headers: eventStream, stream, isEndless: true };
  }

  return {
    open(request) {
      try {
        return openStream(request);
      } catch (error) {
        return failureAnswer(error, undefined);
      }
    },
    async answer(request) {
      const id = requestIdOf(request.body);
      try {
        return await respond(request);
      } catch (error) {
        return failureAnswer(error, id);
      }
    },
  };
}

type NotificationMessage = Extract<ClientMessage, { readonly kind: "notification" }>;

/** A client that takes no stream cannot be asked on one. */
function legacyClient(headers: ProfileHeaders, takesStream: boolean): ClientProfile {
  const client = legacyProfile(headers);
  return takesStream ? client : unableToAnswer(client);
}

const notAcceptable = () => new RpcFailure(rpcCodes.invalidRequest, "accept text/event-stream", { status: 406 });

const eventStream = { "content-type": "text/event-stream", "cache-control": "no-cache" };

const takesEvents = ({ accept = "" }: IncomingHttpHeaders): boolean => /\btext\/event-stream\b/i.test(accept);

/** A fault goes on to the listener, which answers all faults. */
function failureAnswer(error: unknown, id: RpcId | undefined): RouteAnswer {
  if (error instanceof RpcFailure) return { status: error.status, body: errorResponse(id, error) };
  if (error instanceof HeaderMismatch) {
    return { status: 400, body: errorResponse(id, { code: rpcCodes.headerMismatch, message: error.message }) };
  }
  throw withRpcError(faultOfStore(error), id);
}

const profileHeadersOf = (headers: IncomingHttpHeaders): ProfileHeaders => ({
  version: single(headers["mcp-protocol-version"]),
  sessionId: single(headers["mcp-session-id"]),
});

const single = (value: string | readonly string[] | undefined): string | undefined =>
  typeof value === "string" ? value : undefined;

const repeating = ["mcp-protocol-version", "mcp-method", "mcp-name"] as const;

/** Throws `HeaderMismatch` for headers that do not repeat the message. A header that was sent twice repeats nothing. */
function checkHeaders(headers: IncomingHttpHeaders, { id, method, params }: ClientMessage & { kind: "request" }): void {
  const sent = repeating.flatMap((name) => (headers[name] === undefined ? [] : [name, String(headers[name])]));
  const version = versionIn(params);
  checkMessageHeaders(messageHeaders(sent), {
    method,
    name: textIn(params, "name"),
    uri: textIn(params, "uri"),
    version: typeof version === "string" ? version : undefined,
    id: JSON.stringify(id),
  });
}

const textIn = (params: JsonObject, name: string): string | undefined =>
  typeof params[name] === "string" ? params[name] : undefined;

function endpointCaller(request: RouteRequest, { origins, publicUrl }: Broker): EndpointCaller {
  const { caller, environment } = callerIn(request);
  const { origin } = request.headers;
  // The listener knows the origins of all environments; those of this one are known once the caller is.
  const isForeign = origin !== undefined && !isOwn(origin, request.headers, { publicUrl });
  if (isForeign && !origins.isAllowed(origin, environment)) {
    throw new Fault("origin_not_allowed", "requests from that web page are not allowed");
  }
  return {
    caller,
    environment,
    connectionHeader: single(request.headers["connection-id"]) ?? "",
    subjectToken: single(request.headers["latchkey-subject-token"]),
    traceparent: single(request.headers["traceparent"]),
    leaving: () => request.leaving?.() ?? new AbortController().signal,
    admitsTool: (name) => mayCallTool(caller, name),
  };
}
