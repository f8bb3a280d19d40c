import { validateHeaderValue } from "node:http";
import { Fault, type FaultCode } from "../../base/fault.ts";
import { cutAfterMs } from "../../base/http/end-socket.ts";
import { errorBody } from "../../base/http/error-body.ts";
import { grpcRefusal } from "../../base/http/grpc-status.ts";
import { randomId } from "../../base/ids.ts";
import { LiveSet } from "../../base/live-set.ts";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import type { FrontRequest, FrontResponse } from "../../relay/client/incoming.ts";
import { StreamRequest, StreamResponse } from "../../relay/http2/stream-front.ts";
import { corsFields, preflightFields } from "../connect/page-origin.ts";
import type { EndlessResponses } from "./endless-responses.ts";
import type { FaultPage, RouteAnswer } from "./routes.ts";
import type { DoorSockets } from "./sockets.ts";
import { sendStream } from "./stream-answer.ts";

/** Responses that the listener makes itself, not the provider. */
export interface DoorAnswers {
  /** Allows a page of this origin to read the response. */
  showTo(request: FrontRequest, origin: string): void;
  answer(target: AnswerTarget, answer: RouteAnswer): void;
  fault(target: AnswerTarget, fault: Fault, faultPage?: FaultPage): void;
  /**
   * Reads no further on the connection if the start of its next request is uncertain after this fault. `fault` does
   * the same; to be called first where it is called later, since Node may already have parsed the next request.
   */
  distrust(request: FrontRequest, fault: Fault): void;
  /** Returns what `fault` would send, without headers about the connection. */
  textOf(fault: Fault): AnswerText;
  /** Returns what `answer` would send, without headers about the connection. */
  textOfAnswer(answer: RouteAnswer): AnswerText;
  /** Answers `OPTIONS`; undefined: for the server as a whole. */
  options(target: AnswerTarget, allowed: readonly string[] | undefined): void;
}

interface AnswerTarget {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
}

type AnswerHeaders = Readonly<Record<string, string>>;

/** A response without headers about the length and the connection. */
export interface AnswerText {
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly body: string;
}

interface DoorAnswersOptions {
  readonly door: string;
  readonly sockets: Pick<DoorSockets, "end" | "isEnding" | "cutsOff">;
  /** While draining, every connection closes after its response. */
  readonly isDraining: () => boolean;
  /** Responses without an end of their own, which are cut when the process stops. */
  readonly endless: EndlessResponses;
  readonly world: World;
}

/** Emitted by a response that was sent although its connection has not ended. */
export const answeredEvent = Symbol("answered");

/** Headers of all our own responses. */
const ownHeaders = { "latchkey-version": version, "cache-control": "no-store", "x-content-type-options": "nosniff" };
const json = "application/json; charset=utf-8";
const jsonHeaders = { ...ownHeaders, "content-type": json };

/**
 * After these faults the start of the next request, or its target, is uncertain: the connection is not read further.
 */
const untrusted: ReadonlySet<FaultCode> = new Set(["malformed_request", "duplicate_header", "misdirected_request"]);

export const createEndlessResponses = (): EndlessResponses => new LiveSet();

export function createDoorAnswers({ door, sockets, isDraining, endless, world }: DoorAnswersOptions): DoorAnswers {
  const { metrics, log } = world;
  const pageOf = new WeakMap<FrontRequest, string>();
  /** Providers get the same answer again and again. */
  let last: { readonly given: RouteAnswer; readonly text: AnswerText } | undefined;

  /** An unexpected error only tells the caller the id of its log entry. */
  function logged({ cause }: Fault): Fault {
    const id = randomId();
    metrics.unhandled.inc();
    log.error("a request failed unexpectedly", { door, log_id: id, err: cause });
    return new Fault("internal", `internal error; its log id is ${id}`);
  }

  /** Ends no HTTP/2 session: an error in one stream says nothing about the others. */
  function end(request: FrontRequest): void {
    if (!(request instanceof StreamRequest)) sockets.end(request.socket);
  }

  function distrust(request: FrontRequest, { code }: Fault): void {
    if (untrusted.has(code)) end(request);
  }

  function answer(target: AnswerTarget, given: RouteAnswer): void {
    if (given.headers !== undefined) setAll(target.response, given.headers);
    if (given.stream !== undefined) {
      setOwn(target);
      const { status, stream, isEndless = false } = given;
      void sendStream(target.response, { status, stream, isEndless, endless });
    } else send(target, { status: given.status, body: bodyIn(given) });
  }

  function send({ request, response }: AnswerTarget, { status, body }: SentAnswer): void {
    const isCutOff = setOwn({ request, response });
    response.setHeader("content-length", Buffer.byteLength(body));
    response.writeHead(status);
    const sent = request.method === "HEAD" ? "" : body;
    if (!isCutOff) {
      response.end(sent);
      return;
    }
    response.flushHeaders();
    response.write(sent);
    response.emit(answeredEvent);
    const cut = setTimeout(() => response.end(), cutAfterMs);
    response.once("close", () => clearTimeout(cut));
  }

  /** Sets the headers of every response. Returns whether the rest of the request is not awaited. */
  function setOwn({ request, response }: AnswerTarget): boolean {
    const isCutOff = sockets.cutsOff(request);
    if (isDraining() || isCutOff) end(request);
    if (sockets.isEnding(request.socket)) response.setHeader("connection", "close");
    setAll(response, ownHeaders);
    if (!response.hasHeader("content-type")) response.setHeader("content-type", json);
    const page = pageOf.get(request);
    if (page !== undefined) setAll(response, corsFields(page));
    return isCutOff;
  }

  return {
    showTo: (request, origin) => void pageOf.set(request, origin),
    answer,
    distrust,
    fault(target, found, faultPage) {
      const { request, response } = target;
      const fault = found.code === "internal" ? logged(found) : found;
      distrust(request, fault);
      setAll(response, headersOf(fault));
      // Hide that the page's origin is known: the requested environment does not allow it.
      if (fault.code === "origin_not_allowed") pageOf.delete(request);
      if (response instanceof StreamResponse && isGrpc(request.headers["content-type"])) {
        response.endWith(grpcRefusal(fault), fault.status);
        return;
      }
      const { headers, url = "" } = request;
      if (faultPage !== undefined) answer(target, faultPage(fault, { headers, rawQuery: url.split("?")[1] ?? "" }));
      else send(target, { status: fault.status, body: errorBody(fault) });
    },
    textOf(found) {
      const fault = found.code === "internal" ? logged(found) : found;
      const headers = { ...headersOf(fault), ...ownHeaders, "content-type": json };
      return { status: fault.status, headers, body: errorBody(fault) };
    },
    textOfAnswer(given) {
      if (last?.given !== given) last = { given, text: answerText(given) };
      return last.text;
    },
    options({ request, response }, allowed) {
      const page = pageOf.get(request);
      if (page !== undefined) setAll(response, { ...corsFields(page), ...preflightFields(allowed ?? []) });
      if (allowed !== undefined) response.setHeader("allow", allowed.join(", "));
      response.setHeader("latchkey-version", version);
      response.writeHead(204).end();
    },
  };
}

function answerText(given: RouteAnswer): AnswerText {
  const { status, headers } = given;
  if (headers === undefined) return { status, headers: jsonHeaders, body: String(bodyIn(given)) };
  // Same check as `setHeader`, which the fast path does not use.
  for (const [name, value] of Object.entries(headers)) validateHeaderValue(name, value);
  return { status, headers: { "content-type": json, ...headers, ...ownHeaders }, body: String(bodyIn(given)) };
}

function headersOf({ status, metadata, retryAfterSeconds, code }: Fault): AnswerHeaders {
  const { allow, approval, location } = metadata;
  return {
    ...(status === 401 ? { "www-authenticate": "Bearer" } : {}),
    ...(status === 407 ? { "proxy-authenticate": 'Basic realm="latchkey"' } : {}),
    ...(allow === undefined ? {} : { allow }),
    ...(approval === undefined ? {} : { "latchkey-approval": approval }),
    ...(location === undefined ? {} : { location }),
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
    "latchkey-error": code,
  };
}

function bodyIn({ body, headers }: RouteAnswer): string | Buffer {
  if (body === undefined) return "";
  if (Buffer.isBuffer(body)) return body;
  const isText = headers?.["content-type"] !== undefined && typeof body === "string";
  return isText ? body : JSON.stringify(body);
}

interface SentAnswer {
  readonly status: number;
  readonly body: string | Buffer;
}

function setAll(response: FrontResponse, fields: Readonly<Record<string, string | readonly string[]>>): void {
  for (const [name, value] of Object.entries(fields)) response.setHeader(name, value);
}
