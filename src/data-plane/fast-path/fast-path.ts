import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import { createNote, type Memo } from "../../base/memo.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ClientConnection } from "../../relay/client/client-connection.ts";
import type { ClientConnectionOwner, TakenRequest } from "../../relay/client/client-connection-owner.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import { type Clients, createClients } from "../../relay/client/clients.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import type { RequestFields, RequestHead } from "../../relay/http1/request-head.ts";
import { isUnderMcp, mcpPrefix } from "../mcp/target.ts";
import type { ForwardTarget } from "../proxy/forwarding/forward-target.ts";
import { type CallContext, type ProviderCall, proxyPrefix } from "../proxy/provider-call.ts";
import type { ProviderProxy } from "../proxy/proxy.ts";
import type { ProxyCall, RelayedCall } from "../proxy/proxy-call.ts";
import type { DoorAnswers } from "../server/answers.ts";
import { relayedField } from "../server/authenticate-request.ts";
import { EndlessResponse, type EndlessResponses } from "../server/endless-responses.ts";
import type { ForwardTraffic } from "../server/forward-traffic.ts";
import { type HeadCheck, singleHeaders } from "../server/heads.ts";
import type { DoorCount, RouteCount } from "../server/request-count.ts";
import type { Match } from "../server/routes.ts";
import { WebhookCall, type WebhookCallShared } from "./webhook-request.ts";

export interface FastPathOptions {
  /** Name of the listener. */
  readonly listener: string;
  /** Undefined for a listener that serves no provider. */
  readonly proxy: ProviderProxy | undefined;
  /** Webhook settings, and the lookup of a webhook's route. */
  readonly receiving: WebhookCallShared & {
    readonly maxBytes: number;
    /** Undefined for a listener without webhook routes. */
    readonly routeFor: ((head: RequestHead) => Match | undefined) | undefined;
  };
  readonly check: HeadCheck["checkForProvider"];
  readonly checkInTunnel: HeadCheck["checkInTunnel"];
  /** Set for a listener that is a forward proxy. */
  readonly forward: Pick<ForwardTraffic, "tunnelOf"> | undefined;
  /** Returns the connection that an alias address or host name stands for. */
  readonly aliasOf: (head: FrontHead) => ConnectionRef | undefined;
  readonly count: DoorCount;
  readonly textOf: DoorAnswers["textOf"];
  /** Responses without end, which are destroyed on shutdown. */
  readonly endless: EndlessResponses;
  /**
   * Hands a connection to the general path. `isHttp1` says whether HTTP/1.1 has come over the connection; otherwise
   * HTTP/2 may begin.
   */
  readonly handOver: (socket: Socket, isHttp1: boolean) => void;
  readonly refuse: ClientConnectionOwner<ClientConnection>["refuse"];
}

/**
 * The fast path for most proxy requests and most webhooks, without `node:http`: a plain head, and a body of headersCache
 * length or none. Decides, before anything has happened, whether a request can use the fast path. All other requests,
 * also those to refuse, go with their bytes unread to the general path, as does the rest of their connection. From
 * there both paths are the same: `ProxiedRequest` and the provider side of the relay, or the listener's route.
 */
export function createFastPath(options: FastPathOptions): Clients {
  const {
    listener,
    proxy,
    receiving,
    check,
    checkInTunnel,
    forward,
    aliasOf,
    handOver,
    refuse,
    count,
    textOf,
    endless,
  } = options;
  const relaying = proxy && {
    proxy,
    services: {
      listener,
      count,
      answered: count.of(providerRoute),
      answeredByMcp: count.of(`${mcpPrefix}/*`),
      textOf,
      endless,
    },
  };

  function take(connection: ClientConnection, head: RequestHead): boolean | Promise<void> {
    const match = head.url.startsWith(underProxy) ? undefined : receiving.routeFor?.(head);
    if (match !== undefined) return receive(connection, head, match);
    return relaying === undefined ? false : toProvider(relaying, connection, head);
  }

  function receive(connection: ClientConnection, head: RequestHead, match: Match): boolean | Promise<void> {
    const { method, url, fields } = head;
    if (fields.contentLength > receiving.maxBytes) return false;
    // Webhook headers differ each time: do not cache them.
    const headers = headersIn(fields);
    if (headers === "from a page") return false;
    const request = {
      method,
      url,
      httpVersion: "1.1",
      rawHeaders: fields.rawHeaders,
      headers,
      socket: connection.socket,
    };
    let admitted: Promise<void> | undefined;
    try {
      if (aliasOf(request) !== undefined) return false;
      check(request);
      admitted = match.route.admit?.(match.params);
    } catch {
      /* As below: the general path reports the error. */
      return false;
    }
    // The general path reports the result.
    if (admitted !== undefined) return admitted.then(nothing);
    new WebhookCall(receiving, { connection, match, head, headers }).begin();
    return true;
  }

  function toProvider(
    { proxy: to, services }: ProviderPath,
    connection: ClientConnection,
    head: RequestHead,
  ): boolean | Promise<void> {
    const headers = headersOf(head.fields);
    if (headers === "from a page") return false;
    const call = new FastCall(to, services, { connection, head, headers });
    let ready: ProviderCall | Promise<void> | undefined;
    try {
      call.forward = forward?.tunnelOf(call);
      if (call.forward !== undefined) {
        checkInTunnel(call, call.forward);
      } else {
        call.alias = aliasOf(call);
        if (call.alias === undefined && !head.url.startsWith(underProxy) && !isUnderMcp(head)) return false;
        check(call);
      }
      ready = to.prepare(call.context);
    } catch {
      /* The general path gets the same error and reports it. */
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

/** Headers that only a page's browser or an edge sends. `usedHeaders` are the headers that this directory reads. */
const pageHeaders = new Set(["origin", "sec-fetch-site", relayedField]);
const usedHeaders = new Set([...singleHeaders, "content-length"]);

type HeadersOrPage = IncomingHttpHeaders | "from a page";

const headersCache = createNote<HeadersOrPage>();

const headersOf = (fields: RequestFields): HeadersOrPage =>
  headersCache.of(fields.memo) ?? headersCache.keep(fields.memo, headersIn(fields));

/**
 * One long-lived object shape. The shape of objects built field by field is collected with the last of them. The code
 * compiled for requests would be dropped with the shape once all callers had left for a while.
 */
const noHeaders: Readonly<Record<string, string | undefined>> = Object.fromEntries(
  [...usedHeaders].map((name) => [name, undefined]),
);

/** Duplicate headers are found later, by the checks that read all of them. */
function headersIn({ rawHeaders }: RequestFields): HeadersOrPage {
  const headers = { ...noHeaders };
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const lower = lowerCase(rawHeaders[i] ?? "");
    if (usedHeaders.has(lower)) headers[lower] = rawHeaders[i + 1] ?? "";
    else if (pageHeaders.has(lower)) return "from a page";
  }
  return headers;
}

interface ProviderPath {
  readonly proxy: ProviderProxy;
  readonly services: FastCallServices;
}

interface FastCallServices extends Pick<FastPathOptions, "listener" | "count" | "textOf" | "endless"> {
  readonly answered: RouteCount;
  readonly answeredByMcp: RouteCount;
}

interface ConnectionHead {
  readonly connection: ClientConnection;
  readonly head: RequestHead;
  readonly headers: IncomingHttpHeaders;
}

/** A request on the fast path: its head, its call, and the target of the response. */
class FastCall implements FrontHead, CallContext, ProxyCall, TakenRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion = "1.1";
  readonly rawHeaders: readonly string[];
  readonly memo: Memo;
  readonly headers: IncomingHttpHeaders;
  readonly socket: Socket;
  place = -1;
  alias: ConnectionRef | undefined = undefined;
  forward: ForwardTarget | undefined = undefined;
  readonly #proxy: ProviderProxy;
  readonly #services: FastCallServices;
  readonly #connection: ClientConnection;
  #open: EndlessResponse | undefined = undefined;
  #since = 0;
  #isOver = false;
  #hasBegun = false;
  readonly named = undefined;
  relayed: RelayedCall | undefined = undefined;
  fault: Fault | undefined = undefined;
  isEndless = false;

  constructor(proxy: ProviderProxy, services: FastCallServices, { connection, head, headers }: ConnectionHead) {
    this.#proxy = proxy;
    this.#services = services;
    this.#connection = connection;
    this.method = head.method;
    this.url = head.url;
    this.rawHeaders = head.fields.rawHeaders;
    this.memo = head.fields.memo;
    this.headers = headers;
    this.socket = connection.socket;
  }

  get request(): this {
    return this;
  }

  get context(): this {
    return this;
  }

  get listener(): string {
    return this.#services.listener;
  }

  begin(since: number): void {
    this.#since = since;
    this.#services.count.begin();
  }

  get isGone(): boolean {
    return this.#isOver || this.#connection.isGone;
  }

  get isSettled(): boolean {
    return this.#isOver || this.#connection.isSettled;
  }

  clientSide(answering: AnswerRules): ClientSide {
    return this.#connection.begin(answering, this);
  }

  /** A caller that waits for `100 Continue` is on the general path. */
  proceed(): void {}

  answerFault(fault: Fault): void {
    this.fault = fault;
    this.#connection.answer(this.#services.textOf(fault));
  }

  /** The client connection itself announces the last response. */
  beginAnswer(isEndless: boolean): void {
    this.#hasBegun = true;
    this.isEndless = isEndless;
    if (!isEndless) return;
    this.#open = new EndlessResponse(this.#connection);
    this.#services.endless.add(this.#open);
  }

  cut(): void {
    this.#connection.destroy();
  }

  over(status: number): void {
    const { answered, answeredByMcp, endless } = this.#services;
    this.#isOver = true;
    if (this.#open !== undefined) endless.delete(this.#open);
    const answeredWith = this.#hasBegun || this.fault !== undefined ? status : 0;
    const now = performance.now();
    this.#proxy.leave(this, answeredWith, now);
    const count = isUnderMcp(this) ? answeredByMcp : answered;
    count.end(status, this.#since, now);
  }
}
