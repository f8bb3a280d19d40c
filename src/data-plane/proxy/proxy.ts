import type { Attachment } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import { version } from "../../base/version.ts";
import type { World } from "../../base/world.ts";
import type { Attachments } from "../../broker/credentials/attachments.ts";
import type { Live } from "../../broker/credentials/live-connections.ts";
import type { Hints } from "../../broker/hints.ts";
import type { Access } from "../../broker/setup/access.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import { callerOf } from "../../relay/client/clients-of.ts";
import type { FrontHead, FrontResponse } from "../../relay/client/incoming.ts";
import type { Upstream, UpstreamLimits } from "../../relay/upstream.ts";
import { readBody } from "../server/body.ts";
import type { Load } from "../server/load.ts";
import type { RateLimits } from "../server/rate-limits.ts";
import { allowedMethods, type CallContext, type ObservedCall, type ProviderCall } from "./provider-call.ts";
import { createProviderCalls } from "./provider-calls.ts";
import { type PreparedRequest, ProxiedRequest, type ProxyServices } from "./proxied-request.ts";
import type { ProxyCall } from "./proxy-call.ts";
import { createProxyCount } from "./proxy-count.ts";
import { beginProxyTrace } from "./trace.ts";
import { createUpgrades, wantsUpgrade } from "./upgrade.ts";
import { createUseRecords } from "./use-records.ts";
import type { UpgradeCall } from "./websocket-call.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  /** Returns whether the request was admitted: then `left` is called once it is over. */
  handle(call: HttpCall): boolean;
  /**
   * Returns a call that can be sent at once on its head alone; its rate-limit tokens are taken, and `relay` must be
   * called. Undefined, or a throw: `handle` must handle or refuse the request. A promise settles when `ready` can be
   * called again.
   */
  prepare(context: CallContext): ProviderCall | Promise<void> | undefined;
  /** Relays the call; `left` is called once it is over. */
  relay(call: ProxyCall, ready: ProviderCall): void;
  /** Handles a request for a WebSocket, like `handle`. */
  upgrade(call: UpgradeCall): boolean;
  leave(): void;
}

/** A request from `node:http`, or from an HTTP/2 stream. */
export interface HttpCall extends ObservedCall {
  readonly proceed: () => void;
  readonly answerFault: (fault: Fault) => void;
  /** Whether the listener closes the caller's connection after the response. */
  readonly isLast: () => boolean;
  /** Called for a response without end. */
  readonly onEndless: (response: FrontResponse) => void;
}

interface ProxyOptionsOf {
  readonly access: Access;
  readonly live: Live;
  readonly attachments: Attachments;
  readonly hints: Hints;
  readonly upstream: Upstream;
  readonly limits: UpstreamLimits;
  readonly rates: RateLimits;
  readonly load: Load;
  readonly world: World;
}

/** Limits a body that must be read before sending: to be signed, or to be repeated. */
const maxHeldBytes = 1024 * 1024;

export function createProxy(options: ProxyOptionsOf): ProviderProxy {
  const { access, live, attachments, hints, upstream, limits, rates, load, world } = options;
  const { metrics, tracing } = world;
  const count = createProxyCount(metrics);
  const uses = createUseRecords(world);
  const calls = createProviderCalls({ access, live, attachments, hints, upstream, rates, uses, count, world });
  const open = metrics.proxyOpen.series({});
  const upgrade = createUpgrades({ calls, upstream, limits, count, tracing });
  const shared: ProxyServices = { calls, upstream, world, count, fail };

  function enter({ response, answerFault }: Pick<HttpCall, "response" | "answerFault">): boolean {
    const rejection = load.enter();
    if (rejection === undefined) open.add();
    else fail({ isSettled: isSettled(response), answerFault }, rejection);
    return rejection === undefined;
  }

  function begin(received: HttpCall): void {
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, received);
    const call = new HttpProxyCall(received);
    if (wantsUpgrade(received.request)) {
      fail(call, new Fault("not_implemented", "only WebSocket upgrades of GET over HTTP/1.1 are supported"));
      return;
    }
    calls.begin(received, {
      ready: (ready) => start(received, { call, ready, trace }),
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
    trace?.noteConnection(ready);
    // A caller that left during the lookup emits no further `close`.
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
    prepare(context) {
      if (tracing !== undefined || !load.hasRoom()) return undefined;
      const ready = calls.peek(context);
      if (ready === undefined || ready instanceof Promise) return ready;
      const isPlain = !ready.isLastHop && !needsContent(context.request, ready);
      return isPlain && calls.admit(ready) ? ready : undefined;
    },
    relay(call, ready) {
      // `ready` has checked that there is room.
      load.enter();
      open.add();
      new ProxiedRequest(shared, { call, ready, content: undefined, trace: undefined }).attempt();
    },
    upgrade(call) {
      const isIn = enter(call);
      if (isIn) upgrade(call);
      return isIn;
    },
    leave() {
      open.add(-1);
      load.leave();
    },
  };
}

/**
 * A call on the general path. A class: an object literal with accessors gets its own shape, which costs 15 µs a
 * request.
 */
class HttpProxyCall implements ProxyCall {
  readonly context: HttpCall;

  constructor(context: HttpCall) {
    this.context = context;
  }

  get isGone(): boolean {
    return this.context.response.destroyed;
  }

  get isSettled(): boolean {
    return isSettled(this.context.response);
  }

  clientSide(answering: AnswerRules): ClientSide {
    return callerOf(this.context.request, this.context.response, answering);
  }

  proceed(): void {
    this.context.proceed();
  }

  answerFault(fault: Fault): void {
    this.context.answerFault(fault);
  }

  beginAnswer(isEndless: boolean): void {
    const { response, isLast, onEndless } = this.context;
    if (isLast()) response.shouldKeepAlive = false;
    if (isEndless) onEndless(response);
  }
}

const isSettled = ({ destroyed, headersSent }: FrontResponse): boolean => destroyed || headersSent;

/** RFC 9110, section 7.6.2. */
function answerLastHop(response: FrontResponse, { proxied }: ProviderCall): void {
  // The body will not be read.
  if (proxied.body !== "none") response.setHeader("connection", "close");
  response.setHeader("allow", allowedMethods);
  response.setHeader("latchkey-version", version);
  response.writeHead(204).end();
}

/** Returns whether the body must be read before sending. */
function needsContent(request: FrontHead, { proxied, attachment, options }: ProviderCall): boolean {
  if (proxied.body === "none") return false;
  if (attachment.kind === "signing" && isSigned(attachment, request)) return true;
  // Only a body known to be small is kept for a retry.
  return options.retries > 0 && proxied.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

function isSigned({ needs }: Extract<Attachment, { kind: "signing" }>, { headers }: FrontHead): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}
