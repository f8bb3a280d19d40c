import type { Attachment } from "../auth/attachment.ts";
import { Fault } from "../base/fault.ts";
import { version } from "../base/version.ts";
import type { World } from "../base/world.ts";
import type { Access } from "../broker/access.ts";
import type { Attachments } from "../broker/attachments.ts";
import type { Live } from "../broker/live.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import type { FrontRequest } from "../relay/front.ts";
import type { Upstream, UpstreamLimits } from "../relay/upstream.ts";
import { readBody } from "./body.ts";
import type { Load } from "./load.ts";
import { allowedMethods, createProviderCalls, type ProviderCall } from "./provider-call.ts";
import { type Begun, ProxiedRequest, type ProxyCall, type Shared } from "./proxied-request.ts";
import { createProxyCount } from "./proxy-count.ts";
import { beginProxyTrace } from "./proxy-trace.ts";
import type { RateLimits } from "./rate-limits.ts";
import { createUpgrades, type UpgradeCall, wantsUpgrade } from "./upgrade.ts";
import { createUses } from "./uses.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  /** Returns whether it was let in: then `left` is called once it is over. */
  handle(call: ProxyCall): boolean;
  /** The same for a request that asks to go on as a WebSocket. */
  upgrade(call: UpgradeCall): boolean;
  left(): void;
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
  const uses = createUses(world);
  const calls = createProviderCalls({ access, live, attachments, upstream, rates, uses, world });
  const open = metrics.proxyOpen.series({});
  const upgrade = createUpgrades({ calls, upstream, limits, count, tracing });
  const shared: Shared = { calls, upstream, world, count, fail };

  function enter(call: Pick<ProxyCall, "response" | "answerFault">): boolean {
    const turnedAway = load.enter();
    if (turnedAway === undefined) open.add();
    else fail(call, turnedAway);
    return turnedAway === undefined;
  }

  function begin(call: ProxyCall): void {
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, call);
    if (wantsUpgrade(call.request)) {
      fail(call, new Fault("not_implemented", "the only upgrade there is leads from GET over HTTP/1.1 to a WebSocket"));
      return;
    }
    calls.begin(call, { ready: (ready) => start({ call, ready, trace }), fail: (error) => fail(call, error) });
  }

  function fail(call: Pick<ProxyCall, "response" | "answerFault">, error: unknown): void {
    if (call.response.destroyed || call.response.headersSent) return;
    const fault = faultOfStore(error);
    metrics.proxyRefused.inc({ reason: fault.code });
    call.answerFault(fault);
  }

  function start(begun: Omit<Begun, "content">): void {
    const { call, ready, trace } = begun;
    const { request, response } = call;
    trace?.found(ready);
    // Who left while the connection was looked up would never be heard to leave.
    if (response.closed) return;
    if (ready.isLastHop) {
      answerLastHop(call, ready);
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

/** RFC 9110, section 7.6.2. */
function answerLastHop({ response }: ProxyCall, { asked }: ProviderCall): void {
  // Nobody reads it.
  if (asked.body !== "none") response.setHeader("connection", "close");
  response.setHeader("allow", allowedMethods);
  response.setHeader("latchkey-version", version);
  response.writeHead(204).end();
}

/** Whether the body has to be known before the first byte goes out. */
function needsContent(request: FrontRequest, { asked, attachment, options }: ProviderCall): boolean {
  if (asked.body === "none") return false;
  if (attachment.kind === "signing" && isSigned(attachment, request)) return true;
  // Only what is known to be small is held back for being sent again.
  return options.retries > 0 && asked.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

function isSigned({ needs }: Extract<Attachment, { kind: "signing" }>, request: FrontRequest): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (request.headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}
