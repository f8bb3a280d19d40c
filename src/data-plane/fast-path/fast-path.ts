import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { createNote, type Memo } from "../../base/memo.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ClientConnection, ClientConnectionOwner, TakenRequest } from "../../relay/client/client-connection.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import { type Clients, createClients } from "../../relay/client/clients.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import type { RequestFields, RequestHead } from "../../relay/http1/request-head.ts";
import { type CallContext, type ProviderCall, proxyPrefix } from "../proxy/provider-call.ts";
import type { ProxyCall } from "../proxy/proxied-request.ts";
import type { ProviderProxy } from "../proxy/proxy.ts";
import type { DoorAnswers } from "../server/answers.ts";
import type { HeadCheck } from "../server/heads.ts";
import { singleHeaders } from "../server/heads.ts";
import type { DoorCount, RouteCount } from "../server/request-count.ts";
import type { Match } from "../server/routes.ts";
import { WebhookCall, type WebhookCallShared } from "./webhook-request.ts";

interface FastPathOptions {
  /** Undefined: at a door that leads to no provider. */
  readonly proxy: ProviderProxy | undefined;
  /** Webhooks, and the row that one is for. */
  readonly receiving: WebhookCallShared & {
    readonly maxBytes: number;
    rowFor(head: RequestHead): Match | undefined;
  };
  readonly check: HeadCheck["checkForProvider"];
  /** The connection that a request is for because of where, or by what name, it came. */
  readonly aliasOf: (head: FrontHead) => ConnectionRef | undefined;
  readonly count: DoorCount;
  readonly textOf: DoorAnswers["textOf"];
  /** Answers that end when somebody wants them to. */
  readonly endless: Set<{ destroy(): unknown }>;
  /** To the general lane. Whether HTTP/1.1 has come over it: otherwise it may be HTTP/2 that begins. */
  readonly handOver: (socket: Socket, isHttp1: boolean) => void;
  readonly refuse: ClientConnectionOwner["refuse"];
}

/**
 * What most requests to providers and most webhooks are, without `node:http` before it: a plain head, and a body of
 * known length or none. It is decided here, with nothing done yet, whether a request is one of these and can go; all
 * others, those that are to be refused among them, go with their bytes unread to the general lane, and so does what
 * follows on their connection. From there on both lanes are the same: `ProxiedRequest` and the relay's other half, or
 * the row of the door's table.
 */
export function createFastPath(options: FastPathOptions): Clients {
  const { proxy, receiving, check, aliasOf, handOver, refuse, count, textOf, endless } = options;
  const relaying = proxy && { proxy, counting: { count, answered: count.of(providerRoute), textOf, endless } };

  function take(line: ClientConnection, head: RequestHead): boolean | Promise<void> {
    const match = head.url.startsWith(underProxy) ? undefined : receiving.rowFor(head);
    if (match !== undefined) return receive(line, head, match);
    return relaying === undefined ? false : toProvider(relaying, line, head);
  }

  function receive(line: ClientConnection, head: RequestHead, match: Match): boolean | Promise<void> {
    const { method, url, fields } = head;
    if (fields.contentLength > receiving.maxBytes) return false;
    // No two of them say the same: nothing of one is kept for the next.
    const headers = headersIn(fields);
    if (headers === "of a page") return false;
    const request = { method, url, httpVersion: "1.1", rawHeaders: fields.rawHeaders, headers, socket: line.socket };
    let admitted: Promise<void> | undefined;
    try {
      if (aliasOf(request) !== undefined) return false;
      check(request);
      admitted = match.route.admit?.(match.params);
    } catch {
      /* As below. */
      return false;
    }
    // What it comes to, the general lane says.
    if (admitted !== undefined) return admitted.then(nothing, nothing);
    new WebhookCall(receiving, { line, match, head, headers }).begin();
    return true;
  }

  function toProvider(
    { proxy: to, counting }: FastPathParts,
    line: ClientConnection,
    head: RequestHead,
  ): boolean | Promise<void> {
    const headers = headersOf(head.fields);
    if (headers === "of a page") return false;
    const call = new FastCall(to, counting, { line, head, headers });
    let ready: ProviderCall | Promise<void> | undefined;
    try {
      call.alias = aliasOf(call);
      if (call.alias === undefined && !head.url.startsWith(underProxy)) return false;
      check(call);
      ready = to.ready(call.asking);
    } catch {
      /* The general lane comes to the same, and says it. */
      return false;
    }
    if (ready === undefined) return false;
    if (ready instanceof Promise) return ready;
    call.begin(ready.since);
    to.relay(call, ready);
    return true;
  }

  return createClients({ take, handOver, refuse });
}

const nothing = () => {};

const providerRoute = `${proxyPrefix}/*`;
const underProxy = `${proxyPrefix}/`;

/** That a page has sent it, a page's browser says; the others are what is asked of a request's head in this room. */
const ofPages = new Set(["origin", "sec-fetch-site"]);
const asked = new Set([...singleHeaders, "content-length"]);

type HeadersOrPage = IncomingHttpHeaders | "of a page";

const known = createNote<HeadersOrPage>();

const headersOf = (fields: RequestFields): HeadersOrPage =>
  known.of(fields.memo) ?? known.keep(fields.memo, headersIn(fields));

/**
 * In one shape, which lives: that of objects made field by field goes with the last of them, and with it, once all
 * callers had left for a while, whatever was compiled for requests.
 */
const unsaid: Readonly<Record<string, string | undefined>> = Object.fromEntries(
  [...asked].map((name) => [name, undefined]),
);

/** What is there twice is found out by whoever looks at all of them. */
function headersIn({ rawHeaders }: RequestFields): HeadersOrPage {
  const headers = { ...unsaid };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const lower = lowerCase(rawHeaders[i] ?? "");
    if (asked.has(lower)) headers[lower] = rawHeaders[i + 1] ?? "";
    else if (ofPages.has(lower)) return "of a page";
  }
  return headers;
}

interface FastPathParts {
  readonly proxy: ProviderProxy;
  readonly counting: AnswerCounting;
}

interface AnswerCounting extends Pick<FastPathOptions, "count" | "textOf" | "endless"> {
  readonly answered: RouteCount;
}

interface ReceivedHead {
  readonly line: ClientConnection;
  readonly head: RequestHead;
  readonly headers: IncomingHttpHeaders;
}

/** One request as all that look at it want to see it: its head, what it asks for, and whom the answer is for. */
class FastCall implements FrontHead, CallContext, ProxyCall, TakenRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion = "1.1";
  readonly rawHeaders: readonly string[];
  readonly memo: Memo;
  readonly headers: IncomingHttpHeaders;
  readonly socket: Socket;
  alias: ConnectionRef | undefined = undefined;
  readonly #proxy: ProviderProxy;
  readonly #counting: AnswerCounting;
  readonly #line: ClientConnection;
  #since = 0;
  #isOver = false;
  #isEndless = false;

  constructor(proxy: ProviderProxy, counting: AnswerCounting, { line, head, headers }: ReceivedHead) {
    this.#proxy = proxy;
    this.#counting = counting;
    this.#line = line;
    this.method = head.method;
    this.url = head.url;
    this.rawHeaders = head.fields.rawHeaders;
    this.memo = head.fields.memo;
    this.headers = headers;
    this.socket = line.socket;
  }

  get request(): this {
    return this;
  }

  get asking(): this {
    return this;
  }

  begin(since: number): void {
    this.#since = since;
    this.#counting.count.begin();
  }

  get isGone(): boolean {
    return this.#isOver || this.#line.isGone;
  }

  get isSettled(): boolean {
    return this.#isOver || this.#line.isSettled;
  }

  face(answering: AnswerRules): ClientSide {
    return this.#line.begin(answering, this);
  }

  /** Who waits to be told is on the general lane. */
  proceed(): void {}

  answerFault(fault: Fault): void {
    this.#line.answer(this.#counting.textOf(fault));
  }

  /** That it is the last one on its connection, the line says by itself. */
  beginAnswer(isEndless: boolean): void {
    this.#isEndless = isEndless;
    if (isEndless) this.#counting.endless.add(this.#line);
  }

  over(status: number): void {
    const { answered, endless } = this.#counting;
    this.#isOver = true;
    if (this.#isEndless) endless.delete(this.#line);
    this.#proxy.left();
    answered.end(status, this.#since);
  }
}
