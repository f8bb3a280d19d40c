import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { Fault } from "../../../base/fault.ts";
import type { Caller } from "../../../broker/setup/caller.ts";
import { faultOfStore } from "../../../broker/stored/store-fault.ts";
import { outgoingParts, via } from "../../../core/outgoing/outgoing.ts";
import { createTunnelClose } from "../../../relay/client/tunnel-close.ts";
import { failureOf } from "../../../relay/dial-failure.ts";
import { RelayFailure } from "../../../relay/failure.ts";
import { endToEnd } from "../../../relay/http1/response-head.ts";
import type { UpstreamLimits } from "../../../relay/upstream.ts";
import { type CallerStreams, mayStillSend } from "../caller-streams.ts";
import type { ObservedCall, ProviderCall } from "../provider-call.ts";
import type { ProviderCalls } from "../provider-calls.ts";
import type { CallNaming, NotableCall, RelayedCall } from "../proxy-call.ts";
import type { ProxyCount } from "../proxy-count.ts";
import { isReflectionGuarded } from "../reflection.ts";
import { faultOfRelay } from "../relay-fault.ts";
import { callerFields } from "../response-lines.ts";
import type { AttemptTrace, ProxyTrace } from "../trace.ts";
import type { TunnelRequests } from "../tunnel-requests.ts";
import { acceptFor, handshakeHeaders, isAccepted } from "./websocket-handshake.ts";

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
  readonly onTunnel: (close: () => void) => void;
}

/** Dependencies shared by all WebSocket calls. */
export interface WebSocketServices {
  readonly calls: Pick<ProviderCalls, "outgoingRequest" | "noteResponse">;
  readonly sendRequest: TunnelRequests;
  readonly limits: Pick<UpstreamLimits, "answerMs" | "idleMs">;
  readonly count: ProxyCount;
  readonly streams: Pick<CallerStreams, "add">;
}

/** A request for a WebSocket, until its tunnel is open or the caller has another response. */
export class WebSocketCall implements NotableCall, RelayedCall {
  place = -1;
  readonly #services: WebSocketServices;
  readonly #call: UpgradeCall;
  readonly #trace: ProxyTrace | undefined;
  readonly #leaving = new AbortController();
  readonly #leave = () => this.#leaving.abort();
  readonly #onEnd = () => this.#call.socket.destroy();
  readonly #onEarly = () => this.fail(tooEarly());
  #attempt: AttemptTrace | undefined;
  named: CallNaming | undefined;
  fault: Fault | undefined;
  readonly isEndless = true;
  readonly isTunnel = true;
  readonly message = undefined;
  addedMicros = 0;
  sends = 0;
  #ready: ProviderCall | undefined;
  /** Bytes of the caller's socket when the tunnel began. */
  #before: { readonly read: number; readonly written: number } | undefined;

  constructor(services: WebSocketServices, call: UpgradeCall, trace: ProxyTrace | undefined) {
    this.#services = services;
    this.#call = call;
    this.#trace = trace;
    const { socket } = call;
    socket.on("error", () => socket.destroy());
    // Read the socket, though no bytes may come: otherwise a caller that leaves would go unnoticed.
    socket.once("close", this.#leave).once("end", this.#onEnd).on("data", this.#onEarly);
  }

  get context(): UpgradeCall {
    return this.#call;
  }

  get relayed(): RelayedCall | undefined {
    return this.#ready === undefined ? undefined : this;
  }

  get ready(): ProviderCall {
    if (this.#ready === undefined) throw new Error("nothing was sent");
    return this.#ready;
  }

  get traceId(): string {
    return this.#trace?.id ?? "";
  }

  get up(): number {
    return this.#before === undefined ? 0 : this.#call.socket.bytesRead - this.#before.read;
  }

  get down(): number {
    return this.#before === undefined ? 0 : this.#call.socket.bytesWritten - this.#before.written;
  }

  fail(error: unknown): void {
    const { response, socket, answerFault } = this.#call;
    if (response.headersSent || socket.destroyed) return;
    this.#leave();
    const fault = faultOfStore(error);
    this.fault = fault;
    this.#services.count.proxyRefused.inc({ reason: fault.code });
    answerFault(fault);
  }

  /** Sends the request to the provider. Throws for one that must not be sent. */
  open(ready: ProviderCall): void {
    const { calls, sendRequest, count } = this.#services;
    const { early, socket } = this.#call;
    const { signal } = this.#leaving;
    this.#trace?.noteConnection(ready);
    if (early.length > 0) throw tooEarly();
    requireTunnel(ready);
    this.#attempt = this.#trace?.attempt(ready);
    const plain = calls.outgoingRequest(ready, ready.proxied, undefined);
    const { target, fields, attached } = outgoingParts(this.#attempt?.withContext(plain) ?? plain);
    const own = ["Host", ready.host, ...fields, ...attached.flat(), "Via", via];
    const headers = handshakeHeaders([...own, "connection", "Upgrade", "upgrade", "websocket"]);
    const accept = acceptFor(headers);
    const { request, tunnel } = sendRequest({ origin: ready.origin, target, headers, socket, signal });
    ready.use?.noteAttempt(0);
    const addedMs = performance.now() - ready.since;
    count.added.observe(addedMs / 1_000);
    this.#ready = ready;
    this.addedMicros = Math.round(addedMs * 1_000);
    this.sends = 1;
    signal.addEventListener("abort", () => request.destroy());
    if (signal.aborted) request.destroy();
    let late: NodeJS.Timeout | undefined;
    request.once("socket", () => {
      late = setTimeout(() => request.destroy(noAnswer()), this.#services.limits.answerMs);
    });
    request.once("close", () => clearTimeout(late));
    request.on("error", (error) => this.fail(faultOfRelay(failureOfRequest(error))));
    request.on("upgrade", (answer: IncomingMessage, there: Socket, head: Buffer) => {
      clearTimeout(late);
      if (signal.aborted || !isAccepted(answer, accept)) {
        there.destroy();
        this.fail(new Fault("provider_malformed", "the provider's response does not open a WebSocket"));
        return;
      }
      this.#noteAnswer(ready, answer);
      const returned = [
        ...callerFields(ready, this.#call, endToEnd(answer.rawHeaders)),
        "Connection",
        "Upgrade",
        "Upgrade",
        "websocket",
      ];
      answer.headers = handshakeHeaders(returned);
      this.#join(there, () => tunnel(answer, there, head));
      this.#before = { read: socket.bytesRead, written: socket.bytesWritten - head.length };
      ready.use?.noteTunnel(head.length);
      this.#trace?.noteTunnel();
    });
    request.on("response", (answer) => {
      clearTimeout(late);
      this.#noteAnswer(ready, answer);
      this.#answerInstead(answer, ready);
    });
  }

  /** Joins the two sides: when one ends, the other ends too. */
  #join(there: Socket, begin: () => void): void {
    const { socket, response, onTunnel } = this.#call;
    socket.off("data", this.#onEarly).off("end", this.#onEnd).off("close", this.#leave);
    response.statusCode = 101;
    response.detachSocket(socket);
    // http-proxy-3 writes the response's head as text, and headers are latin1.
    socket.setDefaultEncoding("latin1");
    there.on("error", () => there.destroy());
    there.once("close", () => socket.destroySoon());
    socket.once("close", () => there.destroySoon());
    begin();
    // After `begin`, which removes all timeouts. Bytes of one side go to the other: one clock sees both.
    socket.setTimeout(this.#services.limits.idleMs, () => socket.destroy());
    const close = createTunnelClose({ here: socket, there });
    onTunnel(close);
    const { ready } = this;
    const { caller } = ready;
    const isWithin = (now: Caller) => mayStillSend(now, caller, ready);
    this.#services.streams.add(this, { caller, isWithin, cut: close });
  }

  /** Forwards the provider's response when the provider opens no tunnel. */
  #answerInstead(answer: IncomingMessage, ready: ProviderCall): void {
    try {
      // A 101 without a protocol counts as a response, and has no end.
      if (answer.statusCode === 101) throw new RangeError("no answer may have the status 101");
      this.#forward(answer, ready);
    } catch (error) {
      answer.destroy();
      this.fail(new Fault("provider_malformed", "the response's headers are malformed", { cause: error }));
    }
  }

  #forward(answer: IncomingMessage, ready: ProviderCall): void {
    const { socket, response } = this.#call;
    const fields = callerFields(ready, this.#call, endToEnd(answer.rawHeaders));
    socket.off("data", this.#onEarly).resume();
    socket.setTimeout(this.#services.limits.idleMs, () => socket.destroy());
    response.sendDate = false;
    response.writeHead(answer.statusCode ?? 0, answer.statusMessage, [...fields, "Connection", "close"]);
    answer.once("close", () => {
      if (!answer.complete) this.#noteCut(ready);
    });
    const { use } = ready;
    if (use !== undefined) answer.on("data", ({ length }: Buffer) => use.down(length));
    // Ends either side when the other does. Errors have been counted.
    pipeline(answer, response, () => {});
  }

  #noteCut(ready: ProviderCall): void {
    const by = this.#leaving.signal.aborted ? "caller" : "provider";
    this.#services.count.proxyCut.inc({ by });
    ready.use?.noteCut(by);
    if (by === "provider") this.#attempt?.noteFailure("provider_closed");
  }

  #noteAnswer(ready: ProviderCall, { statusCode: status = 0, rawHeaders: fields }: IncomingMessage): void {
    // A request that is refused for lack of a nonce is not repeated: a caller that opens tunnels opens them again.
    this.#services.calls.noteResponse(ready, { status, fields });
    ready.responses.add(status);
    this.#attempt?.noteStatus(status);
  }
}

const noAnswer = () => new RelayFailure("answer_timeout", "no answer in time");
const tooEarly = () =>
  new Fault("malformed_request", "send nothing on the WebSocket before the response to its request");

function requireTunnel({ proxied, live }: ProviderCall): void {
  if (proxied.body !== "none") throw new Fault("malformed_request", "a request for a WebSocket must not have a body");
  // Frames are not searched for credentials.
  if (isReflectionGuarded(live.integration)) {
    throw new Fault(
      "not_implemented",
      "WebSockets are not supported for integrations whose responses are searched for credentials",
    );
  }
}

function failureOfRequest(error: Error): RelayFailure {
  if (error instanceof RelayFailure) return error;
  // An error of Node's parser: the response is malformed.
  if ((error as NodeJS.ErrnoException).code?.startsWith("HPE_") === true) {
    return new RelayFailure("malformed", "the response's headers are malformed", { cause: error });
  }
  return failureOf(error, true);
}
