import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { Fault } from "../base/fault.ts";
import { lowerCase } from "../base/field-name.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Answering, Facing } from "../relay/facing.ts";
import type { FrontHead } from "../relay/front.ts";
import type { Line, LineOwner, Taken } from "../relay/line.ts";
import { createLines, type Lines } from "../relay/lines.ts";
import type { RequestFields, RequestHead } from "../relay/request-head.ts";
import type { DoorAnswers } from "./door-answers.ts";
import type { DoorCount } from "./door-count.ts";
import type { HeadCheck } from "./door-head.ts";
import { singleHeaders } from "./door-head.ts";
import { type Asking, type ProviderCall, proxyPrefix } from "./provider-call.ts";
import type { ProxyCall } from "./proxied-request.ts";
import type { ProviderProxy } from "./proxy.ts";
import { ReceivedCall, type Receiving } from "./received-call.ts";
import type { Match } from "./routes.ts";

interface FastLaneOptions {
  /** Undefined: at a door that leads to no provider. */
  readonly proxy: ProviderProxy | undefined;
  /** Webhooks, and the row that one is for. */
  readonly receiving: Receiving & {
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
  readonly refuse: LineOwner["refuse"];
}

/**
 * What most requests to providers and most webhooks are, without `node:http` before it: a plain head, and a body of
 * known length or none. It is decided here, with nothing done yet, whether a request is one of these and can go; all
 * others, those that are to be refused among them, go with their bytes unread to the general lane, and so does what
 * follows on their connection. From there on both lanes are the same: `ProxiedRequest` and the relay's other half, or
 * the row of the door's table.
 */
export function createFastLane(options: FastLaneOptions): Lines {
  const { proxy, receiving, check, aliasOf, handOver, refuse } = options;

  function take(line: Line, head: RequestHead): boolean | Promise<void> {
    const match = receiving.rowFor(head);
    if (match !== undefined) return receive(line, head, match);
    return proxy === undefined ? false : toProvider(proxy, line, head);
  }

  function receive(line: Line, head: RequestHead, match: Match): boolean | Promise<void> {
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
    new ReceivedCall(receiving, { line, match, head, headers }).begin();
    return true;
  }

  function toProvider(to: ProviderProxy, line: Line, { method, url, fields }: RequestHead): boolean | Promise<void> {
    const headers = headersOf(fields);
    if (headers === "of a page") return false;
    const { rawHeaders } = fields;
    const request = { method, url, httpVersion: "1.1", rawHeaders, comeAgain: true, headers, socket: line.socket };
    let asking: Asking;
    let ready: ProviderCall | Promise<void> | undefined;
    try {
      const alias = aliasOf(request);
      if (alias === undefined && !url.startsWith(`${proxyPrefix}/`)) return false;
      check(request);
      asking = { request, alias };
      ready = to.ready(asking);
    } catch {
      /* The general lane comes to the same, and says it. */
      return false;
    }
    if (ready === undefined) return false;
    if (ready instanceof Promise) return ready;
    to.relay(new FastCall(to, options, { line, asking, since: ready.since }), ready);
    return true;
  }

  return createLines({ take, handOver, refuse });
}

const nothing = () => {};

/** That a page has sent it, a page's browser says; the others are what is asked of a request's head in this room. */
const ofPages = new Set(["origin", "sec-fetch-site"]);
const asked = new Set([...singleHeaders, "content-length"]);

type Headers = IncomingHttpHeaders | "of a page";

const known = new WeakMap<RequestFields, Headers>();

function headersOf(fields: RequestFields): Headers {
  const before = known.get(fields);
  if (before !== undefined) return before;
  const made = headersIn(fields);
  known.set(fields, made);
  return made;
}

/** What is there twice is found out by whoever looks at all of them. */
function headersIn({ rawHeaders }: RequestFields): Headers {
  const headers: Record<string, string> = {};
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const lower = lowerCase(rawHeaders[i] ?? "");
    if (asked.has(lower)) headers[lower] = rawHeaders[i + 1] ?? "";
    else if (ofPages.has(lower)) return "of a page";
  }
  return headers;
}

type Counting = Pick<FastLaneOptions, "count" | "textOf" | "endless">;

interface Begun {
  readonly line: Line;
  readonly asking: Asking;
  readonly since: number;
}

class FastCall implements ProxyCall, Taken {
  readonly asking: Asking;
  readonly #proxy: ProviderProxy;
  readonly #counting: Counting;
  readonly #line: Line;
  readonly #since: number;
  #isOver = false;

  constructor(proxy: ProviderProxy, counting: Counting, { line, asking, since }: Begun) {
    this.#proxy = proxy;
    this.#counting = counting;
    this.#line = line;
    this.#since = since;
    this.asking = asking;
    counting.count.begin();
  }

  get isGone(): boolean {
    return this.#isOver || this.#line.isGone;
  }

  get isSettled(): boolean {
    return this.#isOver || this.#line.isSettled;
  }

  face(answering: Answering): Facing {
    return this.#line.begin(answering, this);
  }

  /** Who waits to be told is on the general lane. */
  proceed(): void {}

  answerFault(fault: Fault): void {
    this.#line.answer(this.#counting.textOf(fault));
  }

  /** That it is the last one on its connection, the line says by itself. */
  beginAnswer(isEndless: boolean): void {
    if (isEndless) this.#counting.endless.add(this.#line);
  }

  over(status: number): void {
    const { count, endless } = this.#counting;
    this.#isOver = true;
    endless.delete(this.#line);
    this.#proxy.left();
    count.end({ route: `${proxyPrefix}/*`, status, since: this.#since });
  }
}
