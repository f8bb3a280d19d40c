import type { IncomingMessage, ServerResponse } from "node:http";
import type { Attachment } from "../auth/attachment.ts";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { Access } from "../broker/access.ts";
import type { Attachments } from "../broker/attachments.ts";
import type { Live, LiveConnection } from "../broker/live.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import { incomingFields } from "../core/incoming-fields.ts";
import { type Asked, outgoing } from "../core/outgoing.ts";
import { outgoingFields } from "../core/outgoing-fields.ts";
import { type Caller, createCaller } from "../relay/caller.ts";
import type { Receiver } from "../relay/connection.ts";
import type { Exchange, Upstream, UpstreamLimits } from "../relay/upstream.ts";
import { readBody } from "./body.ts";
import {
  type Asking,
  createProviderCalls,
  faultOfPreparing,
  faultOfRelay,
  type ProviderCall,
  relocated,
} from "./provider-call.ts";
import { type Again, againAfter } from "./proxy-again.ts";
import { beginProxyTrace, type ProxyTrace } from "./proxy-trace.ts";
import { guardReflection } from "./reflection.ts";
import { createUpgrades, type UpgradeCall, wantsUpgrade } from "./upgrade.ts";

/** `ANY /proxy/<provider path>`: any request, streamed, with the connection's credentials attached. */
export interface ProviderProxy {
  readonly handle: (call: ProxyCall) => void;
  /** The same for a request that asks to go on as a WebSocket. */
  readonly upgrade: (call: UpgradeCall) => void;
}

export interface ProxyCall extends Asking {
  readonly response: ServerResponse;
  /** Tells a caller that waits for it to send the body. */
  readonly proceed: () => void;
  readonly answerFault: (fault: Fault) => void;
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

/** A call whose connection is at hand. */
interface Going extends ProxyCall, ProviderCall {
  readonly content: Uint8Array | undefined;
  readonly trace: ProxyTrace | undefined;
}

export function createProxy({ access, live, attachments, upstream, limits, world }: ProxyOptionsOf): ProviderProxy {
  const { metrics, tracing } = world;
  const calls = createProviderCalls({ access, live, attachments, upstream, world });

  function handle(call: ProxyCall): void {
    metrics.proxyOpen.inc();
    call.response.on("close", () => metrics.proxyOpen.dec());
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, call);
    if (wantsUpgrade(call.request)) {
      fail(call)(new Fault("not_implemented", "the only upgrade there is leads from GET over HTTP/1.1 to a WebSocket"));
      return;
    }
    calls.begin(call, { ready: (ready) => start({ ...call, ...ready, content: undefined, trace }), fail: fail(call) });
  }

  const fail = (call: ProxyCall) => (error: unknown) => {
    if (call.response.destroyed || call.response.headersSent) return;
    const fault = faultOfStore(error);
    metrics.proxyRefused.inc({ reason: fault.code });
    call.answerFault(fault);
  };

  function start(going: Going): void {
    const { request, response, asked, attachment, trace } = going;
    trace?.found(going);
    // Who left while the connection was looked up would never be heard to leave.
    if (response.closed) return;
    const needsBody =
      asked.body !== "none" &&
      ((attachment.kind === "signing" && needsContent(attachment, request)) || isHeldForRetries(going));
    if (!needsBody) {
      relay(going);
      return;
    }
    going.proceed();
    readBody(request, maxHeldBytes).then((content) => relay({ ...going, content }), fail(going));
  }

  /** One caller, who sees one answer, however many attempts that takes. */
  function relay(going: Going): void {
    const { request, response, options, attachment, live: found } = going;
    let exchange: Exchange | undefined;
    let tried = 0;
    const caller = createCaller({
      request,
      response,
      fieldsFor: ({ fields }) => incomingFields({ fields, relocate: (location) => relocated(going, location) }),
      onFailure: (failure) => fail(going)(faultOfRelay(failure)),
      onLeave: () => exchange?.abort(),
      onMore: () => exchange?.resume(),
      onCut: (by) => metrics.proxyCut.inc({ by }),
    });
    const guarded = guardReflection(caller.receiver, {
      integration: found.integration,
      attachment,
      refuse: () => {
        exchange?.abort();
        fail(going)(new Fault("credential_echo", "the provider's answer holds the credentials that were sent to it"));
      },
    });
    const counting = counted(guarded, found);
    const receiver = options.retries === 0 ? counting : trying(counting, { again, abort: () => exchange?.abort() });
    attempt();

    function again(happened: Again): boolean {
      if (tried === options.retries || response.destroyed) return false;
      const delayMs = againAfter(happened, { going, tried, nowMs: world.now() });
      if (delayMs === undefined) return false;
      tried += 1;
      metrics.proxyRetries.inc();
      going.trace?.again();
      setTimeout(() => {
        if (!response.destroyed) attempt();
      }, delayMs);
      return true;
    }

    function attempt(): void {
      try {
        exchange = send(going, { receiver, sendBody: caller.sendBody });
      } catch (error) {
        fail(going)(faultOfPreparing(error));
      }
    }
  }

  interface Sending {
    readonly receiver: Receiver;
    readonly sendBody: Caller["sendBody"];
  }

  function send(going: Going, { receiver, sendBody }: Sending): Exchange {
    const { asked, origin, content } = going;
    const plain =
      content === undefined
        ? calls.goingOf(going)
        : calls.goingOf(going, { ...asked, body: "length", rawHeaders: withLength(asked, content) }, content);
    const attempt = going.trace?.attempt(going);
    const { head, attached } = outgoing(attempt === undefined ? plain : attempt.joined(plain));
    const body = content === undefined ? asked.body : content.length === 0 ? "none" : "length";
    const exchange = upstream.send(
      { origin, method: asked.method, head, body },
      attempt?.watched(receiver) ?? receiver,
    );
    metrics.proxyAddedSeconds.observe((performance.now() - going.since) / 1_000);
    if (content !== undefined) {
      exchange.write(Buffer.from(content.buffer, content.byteOffset, content.byteLength));
      exchange.end([]);
    } else if (asked.body !== "none") {
      going.proceed();
      sendBody(exchange, (trailers) => outgoingFields(trailers, new Set(attached)).pairs);
    }
    return exchange;
  }

  function counted(receiver: Receiver, { credentials }: LiveConnection): Receiver {
    const kind = credentials.kind.case ?? "none";
    // Named one by one: this is made for each request, and a spread is slow.
    const { onInformational, onEnd, onFailure, onDrain } = receiver;
    return {
      onInformational,
      onEnd,
      onFailure,
      onDrain,
      onHead(head, hasMore) {
        metrics.proxyRequests.inc({ credentials: kind, answer: `${Math.floor(head.status / 100)}xx` });
        receiver.onHead(head, hasMore);
      },
      onContent(content, release) {
        metrics.proxyBytes.inc({ direction: "down" }, content.length);
        return receiver.onContent(content, release);
      },
    };
  }

  return { handle, upgrade: createUpgrades({ calls, upstream, limits, world }) };
}

interface Trying {
  readonly again: (happened: Again) => boolean;
  readonly abort: () => void;
}

/** An answer that is to be tried again never reaches the caller. */
function trying(receiver: Receiver, { again, abort }: Trying): Receiver {
  return {
    ...receiver,
    onHead(head, hasMore) {
      if (again({ head })) abort();
      else receiver.onHead(head, hasMore);
    },
    onFailure(failure) {
      if (!again({ failure })) receiver.onFailure(failure);
    },
  };
}

function needsContent({ needs }: Extract<Attachment, { kind: "signing" }>, request: IncomingMessage): boolean {
  if (needs !== "form") return needs === "body";
  const [type = ""] = (request.headers["content-type"] ?? "").split(";");
  return type.trim().toLowerCase() === "application/x-www-form-urlencoded";
}

/** Only a body whose length is known to be small is held back for being sent again. */
function isHeldForRetries({ options, request, asked }: Pick<Going, "options" | "request" | "asked">): boolean {
  return options.retries > 0 && asked.body === "length" && Number(request.headers["content-length"]) <= maxHeldBytes;
}

/** What was read whole goes out with its length. */
function withLength({ rawHeaders }: Asked, content: Uint8Array): readonly string[] {
  const kept = rawHeaders.filter((_, i) => (rawHeaders[i - (i % 2)] ?? "").toLowerCase() !== "content-length");
  return [...kept, "Content-Length", String(content.length)];
}
