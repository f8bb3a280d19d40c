import type { IncomingMessage } from "node:http";
import type { Attachment } from "../auth/attachment.ts";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { Access } from "../broker/access.ts";
import type { Attachments } from "../broker/attachments.ts";
import type { Live } from "../broker/live.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import type { Upstream, UpstreamLimits } from "../relay/upstream.ts";
import { readBody } from "./body.ts";
import { createProviderCalls, type ProviderCall } from "./provider-call.ts";
import { ProxiedRequest, type ProxyCall, type Shared } from "./proxied-request.ts";
import { createProxyCount } from "./proxy-count.ts";
import { createUpgrades, type UpgradeCall, wantsUpgrade } from "./upgrade.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  readonly handle: (call: ProxyCall) => void;
  /** The same for a request that asks to go on as a WebSocket. */
  readonly upgrade: (call: UpgradeCall) => void;
}

interface ProxyOptionsOf {
  readonly access: Access;
  readonly live: Live;
  readonly attachments: Attachments;
  readonly upstream: Upstream;
  readonly limits: UpstreamLimits;
  readonly world: World;
}

/** A body that has to be known before the first byte goes out: to be signed, or sent again. */
const maxHeldBytes = 1024 * 1024;

export function createProxy({ access, live, attachments, upstream, limits, world }: ProxyOptionsOf): ProviderProxy {
  const { metrics } = world;
  const calls = createProviderCalls({ access, live, attachments, upstream, world });
  const count = createProxyCount(metrics);
  const shared: Shared = { calls, upstream, world, count, fail };

  function handle(call: ProxyCall): void {
    if (wantsUpgrade(call.request)) {
      fail(call, new Fault("not_implemented", "the only upgrade there is leads from GET over HTTP/1.1 to a WebSocket"));
      return;
    }
    calls.begin(call, { ready: (ready) => start(call, ready), fail: (error) => fail(call, error) });
  }

  function fail(call: ProxyCall, error: unknown): void {
    if (call.response.destroyed || call.response.headersSent) return;
    const fault = faultOfStore(error);
    metrics.proxyRefused.inc({ reason: fault.code });
    call.answerFault(fault);
  }

  function start(call: ProxyCall, ready: ProviderCall): void {
    const { request, response } = call;
    // Who left while the connection was looked up would never be heard to leave.
    if (response.closed) return;
    if (!needsContent(request, ready)) {
      new ProxiedRequest(shared, { call, ready, content: undefined }).attempt();
      return;
    }
    call.proceed();
    readBody(request, maxHeldBytes).then(
      (content) => new ProxiedRequest(shared, { call, ready, content }).attempt(),
      (error) => fail(call, error),
    );
  }

  return { handle, upgrade: createUpgrades({ calls, upstream, limits, count }) };
}

/** Whether the body has to be known before the first byte goes out. */
function needsContent(request: IncomingMessage, { asked, attachment, options }: ProviderCall): boolean {
  if (asked.body === "none") return false;
  if (attachment.kind === "signing" && isSigned(attachment, request)) return true;
  // Only what is known to be small is held back for being sent again.
  return options.retries > 0 && asked.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

function isSigned({ needs }: Extract<Attachment, { kind: "signing" }>, request: IncomingMessage): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (request.headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}
