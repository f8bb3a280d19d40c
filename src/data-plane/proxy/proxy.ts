import type { Attachment } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import type { Attachments } from "../../broker/credentials/attachments.ts";
import type { Live } from "../../broker/credentials/live-connections.ts";
import type { Access } from "../../broker/setup/access.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import { callerOf } from "../../relay/client/clients-of.ts";
import type { FrontHead, FrontResponse } from "../../relay/client/incoming.ts";
import type { Upstream, UpstreamLimits } from "../../relay/upstream.ts";
import { readBody } from "../server/body.ts";
import type { Load } from "../server/load.ts";
import type { RateLimits } from "../server/rate-limits.ts";
import {
  allowedMethods,
  type CallContext,
  createProviderCalls,
  type ObservedCall,
  type ProviderCall,
} from "./provider-call.ts";
import { type PreparedRequest, ProxiedRequest, type ProxyCall, type ProxyServices } from "./proxied-request.ts";
import { createProxyCount } from "./proxy-count.ts";
import { beginProxyTrace } from "./trace.ts";
import { createUpgrades, type UpgradeCall, wantsUpgrade } from "./upgrade.ts";
import { createUseRecords } from "./use-records.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  /** Returns whether it was let in: then `left` is called once it is over. */
  handle(call: HttpCall): boolean;
  /**
   * What can go at once, and of which nothing has to be known but its head; undefined, or a throw, for whatever is
   * to be handled or refused in full. Of the first kind the tokens of its rates are taken, and `relay` is called. A
   * promise settles when it is known which it is.
   */
  ready(asking: CallContext): ProviderCall | Promise<void> | undefined;
  /** Then `left` is called once it is over. */
  relay(call: ProxyCall, ready: ProviderCall): void;
  /** The same for a request that asks to go on as a WebSocket. */
  upgrade(call: UpgradeCall): boolean;
  left(): void;
}

/** A request that came by `node:http`, or by a stream of HTTP/2. */
export interface HttpCall extends ObservedCall {
  readonly proceed: () => void;
  readonly answerFault: (fault: Fault) => void;
  /** Whether the caller's connection ends with the answer, for a reason that is neither the caller's nor the answer's. */
  readonly isLast: () => boolean;
  /** The answer has no end that could be waited for. */
  readonly onEndless: (response: FrontResponse) => void;
}

interface ProxyOptionsOf {
  readonly access: Access;
  readonly live: Live;
  readonly attachments: Attachments;
  readonly upstream: Upstream;
  readonly limits: UpstreamLimits;
  readonly rates: RateLimits;
  readonly load: Load;
  readonly world: World;
}

/** A body that has to be known before the first byte goes out: to be signed, or sent again. */
const maxHeldBytes = 1024 * 1024;

export function createProxy(options: ProxyOptionsOf): ProviderProxy {
  const { access, live, attachments, upstream, limits, rates, load, world } = options;
  const { metrics, tracing } = world;
  const count = createProxyCount(metrics);
  const uses = createUseRecords(world);
  const calls = createProviderCalls({ access, live, attachments, upstream, rates, uses, count, world });
  const open = metrics.proxyOpen.series({});
  const upgrade = createUpgrades({ calls, upstream, limits, count, tracing });
  const shared: ProxyServices = { calls, upstream, world, count, fail };

  function enter({ response, answerFault }: Pick<HttpCall, "response" | "answerFault">): boolean {
    const turnedAway = load.enter();
    if (turnedAway === undefined) open.add();
    else fail({ isSettled: isSettled(response), answerFault }, turnedAway);
    return turnedAway === undefined;
  }

  function begin(asked: HttpCall): void {
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, asked);
    const call = new HttpProxyCall(asked);
    if (wantsUpgrade(asked.request)) {
      fail(call, new Fault("not_implemented", "the only upgrade there is leads from GET over HTTP/1.1 to a WebSocket"));
      return;
    }
    calls.begin(asked, {
      ready: (ready) => start(asked, { call, ready, trace }),
      fail: (error) => fail(call, error),
    });
  }

  function fail(call: Pick<ProxyCall, "isSettled" | "answerFault">, error: unknown): void {
    if (call.isSettled) return;
    const fault = faultOfStore(error);
    metrics.proxyRefused.inc({ reason: fault.code });
    call.answerFault(fault);
  }

  function start({ request, response }: HttpCall, begun: Omit<PreparedRequest, "content">): void {
    const { call, ready, trace } = begun;
    trace?.found(ready);
    // Who left while the connection was looked up would never be heard to leave.
    if (response.closed) return;
    if (ready.isLastHop) {
      answerLastHop(response, ready);
      return;
    }
    if (!needsContent(request, ready)) {
      new ProxiedRequest(shared, { ...begun, content: undefined }).attempt();
      return;
    }
    call.proceed();
    readBody(request, maxHeldBytes).then(
      (content) => new ProxiedRequest(shared, { ...begun, content }).attempt(),
      (error) => fail(call, error),
    );
  }

  return {
    handle(call) {
      const isIn = enter(call);
      if (isIn) begin(call);
      return isIn;
    },
    ready(asking) {
      if (tracing !== undefined || !load.hasRoom()) return undefined;
      const ready = calls.peek(asking);
      if (ready === undefined || ready instanceof Promise) return ready;
      const isPlain = !ready.isLastHop && !needsContent(asking.request, ready);
      return isPlain && calls.admit(ready) ? ready : undefined;
    },
    relay(call, ready) {
      // There was room a moment ago.
      load.enter();
      open.add();
      new ProxiedRequest(shared, { call, ready, content: undefined, trace: undefined }).attempt();
    },
    upgrade(call) {
      const isIn = enter(call);
      if (isIn) upgrade(call);
      return isIn;
    },
    left() {
      open.add(-1);
      load.leave();
    },
  };
}

/** On the general lane. A class: an object of its own with accessors has a shape of its own, and 15 µs a request go. */
class HttpProxyCall implements ProxyCall {
  readonly asking: HttpCall;

  constructor(asking: HttpCall) {
    this.asking = asking;
  }

  get isGone(): boolean {
    return this.asking.response.destroyed;
  }

  get isSettled(): boolean {
    return isSettled(this.asking.response);
  }

  face(answering: AnswerRules): ClientSide {
    return callerOf(this.asking.request, this.asking.response, answering);
  }

  proceed(): void {
    this.asking.proceed();
  }

  answerFault(fault: Fault): void {
    this.asking.answerFault(fault);
  }

  beginAnswer(isEndless: boolean): void {
    const { response, isLast, onEndless } = this.asking;
    if (isLast()) response.shouldKeepAlive = false;
    if (isEndless) onEndless(response);
  }
}

const isSettled = ({ destroyed, headersSent }: FrontResponse): boolean => destroyed || headersSent;

/** RFC 9110, section 7.6.2. */
function answerLastHop(response: FrontResponse, { asked }: ProviderCall): void {
  // Nobody reads it.
  if (asked.body !== "none") response.setHeader("connection", "close");
  response.setHeader("allow", allowedMethods);
  response.setHeader("latchkey-version", version);
  response.writeHead(204).end();
}

/** Whether the body has to be known before the first byte goes out. */
function needsContent(request: FrontHead, { asked, attachment, options }: ProviderCall): boolean {
  if (asked.body === "none") return false;
  if (attachment.kind === "signing" && isSigned(attachment, request)) return true;
  // Only what is known to be small is held back for being sent again.
  return options.retries > 0 && asked.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

function isSigned({ needs }: Extract<Attachment, { kind: "signing" }>, { headers }: FrontHead): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}
