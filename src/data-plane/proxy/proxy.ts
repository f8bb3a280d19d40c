import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Attachments } from "../../broker/credentials/attachments.ts";
import type { Live } from "../../broker/credentials/live-connections.ts";
import type { Hints } from "../../broker/hints.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { Traffic } from "../../broker/traffic/open.ts";
import type { Upstream, UpstreamLimits } from "../../relay/upstream.ts";
import type { CallerAccess } from "../server/authenticate-request.ts";
import type { Load } from "../server/load.ts";
import type { RateLimits } from "../server/rate-limits.ts";
import { createCallCache } from "./call-cache.ts";
import { type CallNotesOptions, createCallNotes } from "./call-notes.ts";
import { createRequestStarts } from "./held/start-request.ts";
import { needsContent } from "./held-body.ts";
import { type HttpCall, HttpProxyCall, isSettled } from "./http-proxy-call.ts";
import type { CallContext, ProviderCall } from "./provider-call.ts";
import { createProviderCalls, type ProviderCallsOptions } from "./provider-calls.ts";
import { ProxiedRequest } from "./proxied-request.ts";
import type { NotableCall, ProxyCall } from "./proxy-call.ts";
import { createProxyCount } from "./proxy-count.ts";
import { beginProxyTrace } from "./trace.ts";
import { createUseRecords } from "./use-records.ts";
import { createUpgrades, wantsUpgrade } from "./websocket/upgrade.ts";
import type { UpgradeCall } from "./websocket/websocket-call.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  /** Returns the request if it was admitted: then `leave` must be called once it is over. */
  handle(call: HttpCall): NotableCall | undefined;
  /**
   * Returns a call that can be sent at once on its head alone; its rate-limit tokens are taken, and `relay` must be
   * called. Undefined, or a throw: `handle` must handle or refuse the request. A promise settles when `ready` can be
   * called again.
   */
  prepare(context: CallContext): ProviderCall | Promise<void> | undefined;
  /** Relays the call; `leave` must be called once it is over. */
  relay(call: ProxyCall, ready: ProviderCall): void;
  /** Handles a request for a WebSocket, like `handle`. */
  upgrade(call: UpgradeCall): NotableCall | undefined;
  /** `status` is 0 if the caller left before there was one. `endMs` is of the monotonic clock. */
  leave(call: NotableCall, status: number, endMs: number): void;
}

interface ProxyOptionsOf {
  readonly access: CallerAccess;
  readonly live: Omit<Live, "close">;
  readonly attachments: Attachments;
  readonly hints: Hints;
  readonly upstream: Upstream;
  readonly limits: UpstreamLimits;
  readonly rates: RateLimits;
  readonly quotas: ProviderCallsOptions["quotas"];
  readonly admission: ProviderCallsOptions["admission"];
  readonly load: Load;
  readonly traffic: Traffic;
  /** Undefined: no listener is a forward proxy. */
  readonly choices?: ProviderCallsOptions["choices"];
  readonly mcp?: ProviderCallsOptions["mcp"];
  /** Undefined where there is no store. */
  readonly audit?: CallNotesOptions["audit"];
  readonly world: World;
}

export function createProxy(options: ProxyOptionsOf): ProviderProxy {
  const { access, live, attachments, hints, upstream, limits, rates, quotas, admission, load, traffic, mcp, world } =
    options;
  const { metrics, tracing } = world;
  const count = createProxyCount(metrics);
  const notes = createCallNotes({ traffic, audit: options.audit, world });
  const uses = createUseRecords(world);
  const cache = createCallCache({ attachments, upstream, count, notes, world });
  const { choices } = options;
  const calling = { access, live, hints, rates, quotas, uses, cache, admission, choices, mcp, world };
  const calls = createProviderCalls(calling);
  const open = metrics.proxyOpen.series({});
  const { streams } = admission;
  const shared = { calls, upstream, world, count, streams, admission, fail };
  const { held, start } = createRequestStarts(shared);
  const upgrade = createUpgrades({ calls, held, upstream, limits, count, streams, tracing });

  function enter({ response, answerFault }: Pick<HttpCall, "response" | "answerFault">): boolean {
    const rejection = load.enter();
    if (rejection === undefined) open.add();
    else fail({ isSettled: isSettled(response), answerFault }, rejection);
    return rejection === undefined;
  }

  function begin(received: HttpCall): NotableCall {
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, received);
    const call = new HttpProxyCall(received);
    if (wantsUpgrade(received.request)) {
      fail(call, new Fault("not_implemented", "only WebSocket upgrades of GET over HTTP/1.1 are supported"));
      return call;
    }
    calls.begin(received, {
      named: (naming) => {
        call.named = naming;
      },
      ready: (ready) => start(received, { call, ready, trace }),
      fail: (error) => fail(call, error),
    });
    return call;
  }

  function fail(call: Pick<ProxyCall, "isSettled" | "answerFault">, error: unknown): void {
    if (call.isSettled) return;
    const fault = faultOfStore(error);
    metrics.proxyRefused.inc({ reason: fault.code });
    call.answerFault(fault);
  }

  return {
    handle: (call) => (enter(call) ? begin(call) : undefined),
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
      streams.follow(call);
      new ProxiedRequest(shared, { call, ready, content: undefined, trace: undefined }).attempt();
    },
    upgrade: (call) => (enter(call) ? upgrade(call) : undefined),
    leave(call, status, endMs) {
      open.add(-1);
      load.leave();
      streams.leave(call);
      notes.note(call, status, endMs);
    },
  };
}
