import { createHash } from "node:crypto";
import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Duplex, pipeline } from "node:stream";
import { createProxyServer } from "http-proxy-3";
import { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import type { Tracing } from "../../base/tracing.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { connectionStateFields } from "../../core/outgoing/connection-state-fields.ts";
import { incomingFields } from "../../core/outgoing/incoming-fields.ts";
import { outgoingParts, via } from "../../core/outgoing/outgoing.ts";
import { createTunnelClose } from "../../relay/client/tunnel-close.ts";
import { failureOf } from "../../relay/dial.ts";
import { RelayFailure } from "../../relay/failure.ts";
import { endToEnd } from "../../relay/http1/response-head.ts";
import type { Upstream, UpstreamLimits } from "../../relay/upstream.ts";
import type { CallContext, ObservedCall, ProviderCall } from "./provider-call.ts";
import type { ProviderCalls } from "./provider-calls.ts";
import { ProviderLinks } from "./provider-links.ts";
import type { ProxyCount } from "./proxy-count.ts";
import { isReflectionGuarded } from "./reflection.ts";
import { faultOfRelay } from "./relay-fault.ts";
import { type AttemptTrace, beginProxyTrace } from "./trace.ts";

/** A request for a WebSocket, and its connection. */
export interface UpgradeCall extends ObservedCall {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** Bytes that followed the head of the request. */
  readonly early: Buffer;
  /** The response on this socket, if no tunnel is opened. */
  readonly response: ServerResponse;
  readonly answerFault: (fault: Fault) => void;
  /** Called once the tunnel is open, with a function that closes the tunnel with Close frames. */
  readonly onTunnel: (sayGoodbye: () => void) => void;
}

interface UpgradesOptions {
  readonly calls: ProviderCalls;
  readonly upstream: Upstream;
  readonly limits: Pick<UpstreamLimits, "answerMs" | "idleMs">;
  readonly count: ProxyCount;
  readonly tracing: Tracing | undefined;
}

/**
 * Whether a request asks to go on in another protocol: both fields belong to it (RFC 9110, 7.8). HTTP/2 is offered by
 * clients that are as happy without, Java's among them: that may be ignored, and is.
 */
export function wantsUpgrade({ headers }: Pick<IncomingMessage, "headers">): boolean {
  const { connection = "", upgrade } = headers;
  if (upgrade === undefined || upgrade.toLowerCase() === "h2c") return false;
  return /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(connection);
}

/** Only a WebSocket may become a tunnel; other upgrades are refused. */
export const wantsWebSocket = (request: IncomingMessage): boolean =>
  wantsUpgrade(request) &&
  request.method === "GET" &&
  request.httpVersion === "1.1" &&
  request.headers.upgrade?.toLowerCase() === "websocket";

/**
 * Tunnels for WebSockets. The request is made ready as any other; http-proxy-3 puts it to the provider and joins the
 * two connections. It does so with a request that we have written and over a connection that we have opened, and is
 * handed the answer once that was found to be a WebSocket's: it would copy every field either way, pass on a `101`
 * that nobody asked for, leave a caller hanging whose provider died within another answer, and it throws where
 * nobody listens.
 */
export function createUpgrades(options: UpgradesOptions): (call: UpgradeCall) => void {
  const { calls, upstream, limits, count, tracing } = options;
  const tunnels = createProxyServer({ toProxy: true });
  // Without a listener beside its own it throws. What goes wrong is told to each tunnel.
  tunnels.on("error", () => {});
  const latest: { request?: ClientRequest } = {};
  tunnels.on("proxyReqWs", (made, shown) => {
    // As it was written: it would drop a lone question mark from the end.
    made.path = shown.url ?? "/";
    latest.request = made;
  });

  return (call) => {
    const { request, socket, response, early } = call;
    const leaving = new AbortController();
    const leave = () => leaving.abort();
    const onEnd = () => socket.destroy();
    const onEarly = () => fail(tooEarly());
    const trace = tracing === undefined ? undefined : beginProxyTrace(tracing, { request, response, over: socket });
    let attempt: AttemptTrace | undefined;
    socket.on("error", () => socket.destroy());
    // Read the socket, though no bytes may come: otherwise a caller that leaves would go unnoticed.
    socket.once("close", leave).once("end", onEnd).on("data", onEarly);

    function fail(error: unknown): void {
      if (response.headersSent || socket.destroyed) return;
      leave();
      const fault = faultOfStore(error);
      count.proxyRefused.inc({ reason: fault.code });
      call.answerFault(fault);
    }

    function open(ready: ProviderCall): void {
      trace?.found(ready);
      if (early.length > 0) throw tooEarly();
      if (ready.asked.body !== "none") throw new Fault("malformed_request", "a request for a WebSocket has no body");
      // Frames are not looked at, and are whatever the two ends make of them.
      if (isReflectionGuarded(ready.live.integration)) {
        throw new Fault("not_implemented", "an integration whose answers are looked at has no WebSockets");
      }
      attempt = trace?.attempt(ready);
      const going = calls.goingOf(ready, ready.asked, undefined);
      const { target, fields, attached } = outgoingParts(attempt?.joined(going) ?? going);
      const own = ["Host", ready.host, ...fields, ...attached.flat(), "Via", via];
      const headers = recordOf([...own, "connection", "Upgrade", "upgrade", "websocket"]);
      const accept = acceptFor(headers);
      const { asking, tunnel } = ask({ ready, target, headers });
      ready.use?.sent(0);
      count.added.observe((performance.now() - ready.since) / 1_000);
      leaving.signal.addEventListener("abort", () => asking.destroy());
      if (leaving.signal.aborted) asking.destroy();
      let late: NodeJS.Timeout | undefined;
      asking.once("socket", () => {
        late = setTimeout(
          () => asking.destroy(new RelayFailure("answer_timeout", "no answer in time")),
          limits.answerMs,
        );
      });
      asking.once("close", () => clearTimeout(late));
      asking.on("error", (error) => fail(faultOfRelay(failureOfAsking(error))));
      asking.on("upgrade", (answer: IncomingMessage, there: Socket, head: Buffer) => {
        clearTimeout(late);
        if (leaving.signal.aborted || !isAccepted(answer, accept)) {
          there.destroy();
          fail(new Fault("provider_malformed", "the provider's answer does not lead to a WebSocket"));
          return;
        }
        noteAnswer(ready, answer);
        answer.headers = recordOf([...fieldsOf(answer, call, ready), "Connection", "Upgrade", "Upgrade", "websocket"]);
        join({ there, go: () => tunnel(answer, there, head) });
        ready.use?.tunnelled(head.length);
        trace?.tunnelled();
      });
      asking.on("response", (answer) => {
        clearTimeout(late);
        noteAnswer(ready, answer);
        try {
          // A 101 that names no protocol is taken for an answer, and has no end.
          if (answer.statusCode === 101) throw new RangeError("no answer may have the status 101");
          answerInstead(answer, ready);
        } catch (error) {
          answer.destroy();
          fail(new Fault("provider_malformed", "the head of the answer is not well-formed", { cause: error }));
        }
      });
    }

    interface AskingFor {
      readonly ready: ProviderCall;
      readonly target: string;
      readonly headers: UpgradeFields;
    }

    /** The request on its way, and what http-proxy-3 would do with an answer that leads to a tunnel. */
    function ask({ ready: { origin }, target, headers }: AskingFor) {
      // Made by hand: whatever stands in a request that it is shown, it copies.
      const shown = { method: "GET", url: target, headers, httpVersion: "1.1", httpVersionMajor: 1 };
      const agent = Object.assign(new http.Agent(), {
        createConnection(_: unknown, ready: (error: Error | null, socket?: Duplex) => void) {
          upstream.open(origin, leaving.signal).then((there) => ready(null, there), ready);
        },
      });
      const { host, port } = origin;
      const options = { target: { host, port, protocol: "http:" }, agent };
      // It reads no more of a request than this. After an error of the tunnel it ends the caller's side by itself.
      tunnels.ws(shown as unknown as IncomingMessage, socket, Buffer.alloc(0), options, () => {});
      const { request: made } = latest;
      const [tunnel] = made?.listeners("upgrade") ?? [];
      if (made === undefined || tunnel === undefined) throw new Error("http-proxy-3 has made no request");
      for (const event of ["upgrade", "response", "error"]) made.removeAllListeners(event);
      return { asking: made, tunnel };
    }

    interface Joining {
      readonly there: Socket;
      readonly go: () => void;
    }

    /** Joins the two sides: when one ends, the other ends too. */
    function join({ there, go }: Joining): void {
      socket.off("data", onEarly).off("end", onEnd).off("close", leave);
      response.statusCode = 101;
      response.detachSocket(socket);
      // It writes the answer's head as text, and fields are latin1.
      socket.setDefaultEncoding("latin1");
      there.on("error", () => there.destroy());
      there.once("close", () => socket.destroySoon());
      socket.once("close", () => there.destroySoon());
      go();
      // After it, since it takes all timeouts away. What comes from the one goes to the other: one clock sees both.
      socket.setTimeout(limits.idleMs, () => socket.destroy());
      call.onTunnel(createTunnelClose({ here: socket, there }));
    }

    /** Forwards the provider's response when the provider opens no tunnel. */
    function answerInstead(answer: IncomingMessage, ready: ProviderCall): void {
      const fields = fieldsOf(answer, call, ready);
      socket.off("data", onEarly).resume();
      socket.setTimeout(limits.idleMs, () => socket.destroy());
      response.sendDate = false;
      response.writeHead(answer.statusCode ?? 0, answer.statusMessage, [...fields, "Connection", "close"]);
      answer.once("close", () => {
        if (answer.complete) return;
        const by = leaving.signal.aborted ? "caller" : "provider";
        count.proxyCut.inc({ by });
        ready.use?.cut(by);
        if (by === "provider") attempt?.failed("provider_closed");
      });
      const { use } = ready;
      if (use !== undefined) answer.on("data", ({ length }: Buffer) => use.down(length));
      // It ends either side when the other does. What went wrong has been counted.
      pipeline(answer, response, () => {});
    }

    function noteAnswer(ready: ProviderCall, { statusCode: status = 0, rawHeaders: fields }: IncomingMessage): void {
      // One that is refused for want of a nonce is not repeated: a caller that opens tunnels opens them again.
      calls.heard(ready, { status, fields });
      ready.answers.add(status);
      attempt?.answered(status);
    }

    calls.begin(call, { ready: open, fail });
  };
}

const tooEarly = () => new Fault("malformed_request", "a WebSocket is silent until its request was answered");

/** By their names as written; of several of one name, a list. */
type UpgradeFields = Record<string, string | string[]>;

function recordOf(pairs: readonly string[]): UpgradeFields {
  const made: UpgradeFields = Object.create(null);
  const names = new Map<string, string>();
  for (let i = 0; i < pairs.length; i += 2) {
    const name = pairs[i] ?? "";
    const value = pairs[i + 1] ?? "";
    const known = names.get(lowerCase(name));
    const before = known === undefined ? undefined : made[known];
    if (known === undefined || before === undefined) {
      names.set(lowerCase(name), name);
      made[name] = value;
    } else {
      made[known] = [before, value].flat();
    }
  }
  return made;
}

/** RFC 6455, section 1.3. */
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** What a WebSocket server must answer to a request; nobody else can, so that no other `101` opens a tunnel. */
function acceptFor(headers: UpgradeFields): string {
  const key = Object.entries(headers).find(([name]) => lowerCase(name) === "sec-websocket-key")?.[1];
  if (typeof key !== "string" || !/^[A-Za-z0-9+/]{22}==$/.test(key)) {
    throw new Fault("malformed_request", "a request for a WebSocket has one Sec-WebSocket-Key, 16 bytes in base64");
  }
  return createHash("sha1").update(key).update(guid).digest("base64");
}

const isAccepted = ({ statusCode, headers }: IncomingMessage, accept: string): boolean =>
  statusCode === 101 &&
  // RFC 9112, section 6: nothing frames what has no body.
  headers["content-length"] === undefined &&
  headers["transfer-encoding"] === undefined &&
  headers.upgrade?.toLowerCase() === "websocket" &&
  headers["sec-websocket-accept"] === accept;

function fieldsOf(answer: IncomingMessage, asking: CallContext, call: ProviderCall): string[] {
  return incomingFields({
    fields: endToEnd(answer.rawHeaders),
    links: new ProviderLinks(call, asking),
    state: connectionStateFields(call.live.connection),
    keepsSetCookie: call.live.integration.keepSetCookie,
  });
}

function failureOfAsking(error: Error): RelayFailure {
  if (error instanceof RelayFailure) return error;
  // The parser's, of an answer that is none.
  if ((error as NodeJS.ErrnoException).code?.startsWith("HPE_") === true) {
    return new RelayFailure("malformed", "the head of the answer is not well-formed", { cause: error });
  }
  return failureOf(error, true);
}
