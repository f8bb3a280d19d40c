import type { Fault } from "../../base/fault.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import { connectionStateFields } from "../../core/outgoing/connection-state-fields.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import { incomingTrailers } from "../../core/outgoing/incoming-fields.ts";
import {
  cachedOutgoing,
  credentialFieldNames,
  type OutgoingRequest,
  outgoing,
  type ProxiedHead,
} from "../../core/outgoing/outgoing.ts";
import { outgoingFields } from "../../core/outgoing/outgoing-fields.ts";
import type { AnswerRules, ClientSide } from "../../relay/client/client-side.ts";
import type { Exchange } from "../../relay/exchange.ts";
import type { RelayFailure } from "../../relay/failure.ts";
import { type ResponseHead, statusLine } from "../../relay/http1/response-head.ts";
import { Http2Client } from "../../relay/http2/stream-client.ts";
import type { ResponseReceiver } from "../../relay/response-receiver.ts";
import { checkContent, checkedBody } from "../mcp/message.ts";
import { type CheckedRequest, checkedAnswer } from "./checked-answer.ts";
import { withLength } from "./held-body.ts";
import { HeldResponse } from "./held-response.ts";
import { protocolChoice } from "./protocol-choice.ts";
import type { ProviderCall } from "./provider-call.ts";
import type { ProxyCall, RelayedCall } from "./proxy-call.ts";
import type { ProxyServices } from "./proxy-services.ts";
import { faultOfPreparing, faultOfRelay, grpcTrailers } from "./relay-fault.ts";
import {
  addedLines,
  callerFields,
  callerLines,
  headerLines,
  informationalFields,
  isEventStream,
} from "./response-lines.ts";
import { type AttemptResult, retryDelayMs } from "./retries.ts";
import type { AttemptTrace, ProxyTrace } from "./trace.ts";

/** A request with one response, in any number of attempts. A class, because there is one for each request. */
export class ProxiedRequest implements AnswerRules, ResponseReceiver, RelayedCall, CheckedRequest {
  readonly #shared: ProxyServices;
  readonly #call: ProxyCall;
  #ready: ProviderCall;
  /** A body that was read before the request was sent. */
  readonly #content: Uint8Array | undefined;
  readonly #trace: ProxyTrace | undefined;
  readonly #hidesTools: boolean;
  #attempt: AttemptTrace | undefined;
  readonly #caller: ClientSide;
  readonly #guard: ResponseReceiver;
  #exchange: Exchange | undefined;
  #tried = 0;
  /** A 401 response, held while other credentials are looked up. */
  #refusal: HeldResponse | undefined;
  #wasRefused = false;
  #hasRepeatedWithNonce = false;
  /** The message to an MCP server, once it was read. */
  message: RpcMessage | undefined;
  addedMicros = 0;
  sends = 0;
  up = 0;
  down = 0;
  readonly isTunnel = false;

  constructor(shared: ProxyServices, { call, ready, content, trace }: PreparedRequest) {
    this.#shared = shared;
    this.#call = call;
    this.#ready = ready;
    this.#content = content;
    this.#trace = trace;
    call.relayed = this;
    this.#caller = call.clientSide(this);
    const { receiver, hidesTools } = checkedAnswer(this.#caller, { request: this, call, admission: shared.admission });
    this.#guard = receiver;
    this.#hidesTools = hidesTools;
  }

  noteMessage(message: RpcMessage): void {
    this.message = message;
    this.#ready.use?.noteMessage(message);
    this.#trace?.noteMessage(message);
  }

  get ready(): ProviderCall {
    return this.#ready;
  }

  get traceId(): string {
    return this.#trace === undefined ? "" : this.#trace.id;
  }

  attempt(): void {
    try {
      this.#exchange = this.#send();
    } catch (error) {
      this.#shared.fail(this.#call, faultOfPreparing(error));
    }
  }

  #send(): Exchange {
    const { upstream, count } = this.#shared;
    const ready = this.#ready;
    const { proxied, origin } = ready;
    const content = this.#content;
    checkContent(ready, content, (message) => this.noteMessage(message));
    this.#attempt = this.#trace?.attempt(ready);
    const isUsual = content === undefined && this.#attempt === undefined && !this.#hidesTools;
    const again = isUsual ? cachedOutgoing(ready) : undefined;
    const how = again === undefined ? protocolChoice(ready, this.#call.context.request) : undefined;
    const head = again ?? outgoing(this.#outgoingRequest({ ready, content, isKept: how === undefined })).head;
    const body = content === undefined ? proxied.body : content.length === 0 ? "none" : "length";
    const request = { origin, method: proxied.method, head, body };
    const exchange = upstream.send(how === undefined ? request : { ...request, ...how }, this);
    ready.use?.noteAttempt(content?.length ?? 0);
    const addedMs = performance.now() - ready.since;
    count.added.observe(addedMs / 1_000);
    if (this.sends === 0) this.addedMicros = Math.round(addedMs * 1_000);
    this.sends += 1;
    if (content !== undefined) this.up = content.length;
    if (content !== undefined) {
      exchange.write(Buffer.from(content.buffer, content.byteOffset, content.byteLength));
      exchange.end([]);
    } else if (proxied.body !== "none") {
      this.#call.proceed();
      const withheld = { replaced: credentialFieldNames(ready.attachment), key: proxied.key };
      const target = checkedBody(exchange, ready, this);
      this.#caller.sendBody(target, (trailers) => outgoingFields(trailers, withheld).pairs);
    }
    return exchange;
  }

  #outgoingRequest({ ready, content, isKept }: RequestPreparation): OutgoingRequest {
    const { calls } = this.#shared;
    const { proxied } = ready;
    const sent: ProxiedHead =
      content === undefined
        ? proxied
        : { ...proxied, body: "length", rawHeaders: withLength(proxied.rawHeaders, content), memo: undefined };
    const made = calls.outgoingRequest(ready, sent, content);
    const wantsPlain = made.wantsPlain || this.#hidesTools;
    const going = isKept && !wantsPlain ? made : { ...made, stamp: undefined, wantsPlain };
    return this.#attempt?.withContext(going) ?? going;
  }

  /** Returns whether the request is retried; the caller does not see the response then. */
  #retries(result: AttemptResult): boolean {
    const { options } = this.#ready;
    const call = this.#call;
    if (this.#tried === options.retries || call.isGone) return false;
    const { world, count } = this.#shared;
    const content = this.#content;
    const delayMs = retryDelayMs(result, { call: this.#ready, content, tried: this.#tried, nowMs: world.now() });
    if (delayMs === undefined) return false;
    this.#tried += 1;
    count.proxyRetries.inc();
    this.#trace?.noteRetry();
    setTimeout(() => {
      if (!call.isGone) this.attempt();
    }, delayMs);
    return true;
  }

  refuse(fault: Fault): void {
    this.abort();
    this.#shared.fail(this.#call, fault);
  }

  abort(): void {
    this.#exchange?.abort();
  }

  onInformational(head: ResponseHead): void {
    const fields = informationalFields(this.#ready, this.#call.context, head.fields);
    const { status, reason, framing, keepsAlive, idleSeconds } = head;
    this.#guard.onInformational({ status, reason, fields, framing, keepsAlive, idleSeconds });
  }

  /** The credentials may have been revoked early: look for others once (RFC 6750, section 3.1). */
  #holdsRefusal(head: ResponseHead, hasMore: boolean): boolean {
    if (head.status !== 401 || this.#wasRefused) return false;
    this.#wasRefused = true;
    const { calls, count, world } = this.#shared;
    const renewal = calls.withNewCredentials(this.#call.context, this.#ready);
    if (!this.#maySendAgain()) {
      // Renew for the next request.
      renewal.catch((err: unknown) => world.log.debug("could not refresh refused credentials", { err }));
      return false;
    }
    const refusal = new HeldResponse(head, hasMore);
    this.#refusal = refusal;
    renewal.then(
      (renewed) => {
        if (this.#refusal !== refusal) return;
        if (renewed === undefined) this.#forwardRefusalAfterReload(refusal);
        else this.#sendRenewed(renewed);
      },
      (err: unknown) => {
        world.log.debug("could not refresh refused credentials", { err });
        this.#forwardRefusalAfterReload(refusal);
      },
    );
    count.proxyRefusals.inc();
    return true;
  }

  /** RFC 9110, 9.2.1: repeating a safe method does no harm. */
  #maySendAgain(): boolean {
    const { proxied } = this.#ready;
    return proxied.body === "none" && safe.has(proxied.method);
  }

  /** Only this repetition has new facts: all others send what was judged before. */
  #sendRenewed(renewed: ProviderCall): void {
    try {
      this.#sendAgain(this.#shared.calls.admittedAgain(this.#call.context, renewed, this.#ready));
    } catch (error) {
      this.#refusal = undefined;
      this.#exchange?.abort();
      this.#shared.fail(this.#call, faultOfPreparing(error));
    }
  }

  #sendAgain(renewed: ProviderCall): void {
    this.#refusal = undefined;
    this.#exchange?.abort();
    if (this.#call.isGone) return;
    this.#ready = renewed;
    this.#trace?.noteRetry();
    this.attempt();
  }

  /** Forwards the refusal, after reading the connection again, since the refusal may have changed its state. */
  #forwardRefusalAfterReload(refusal: HeldResponse): void {
    const { calls } = this.#shared;
    calls.reloadConnection(this.#ready).then((live) => {
      if (this.#refusal !== refusal) return;
      if (live !== undefined) {
        this.#ready = { ...this.#ready, live, state: connectionStateFields(live.connection) };
      }
      this.#forwardRefusal();
    });
  }

  /** Forwards the refusal. */
  #forwardRefusal(): void {
    const refusal = this.#refusal;
    this.#refusal = undefined;
    refusal?.forward(this);
  }

  /** Repeats the request with the provider's nonce: the provider did nothing, and the credentials are fine. */
  #repeatsWithNonce(): boolean {
    const { proxied, options } = this.#ready;
    const isAllowedByRetries = options.retries > 0 && (proxied.body === "none" || this.#content !== undefined);
    if (this.#hasRepeatedWithNonce || !(isAllowedByRetries || this.#maySendAgain())) return false;
    this.#hasRepeatedWithNonce = true;
    this.#exchange?.abort();
    // Deferred, not run inside the connection that is being aborted.
    setImmediate(() => this.#sendAgain(this.#ready));
    return true;
  }

  onHead(head: ResponseHead, hasMore: boolean): void {
    const lacksNonce = this.#shared.calls.noteResponse(this.#ready, head);
    if (lacksNonce ? this.#repeatsWithNonce() : this.#holdsRefusal(head, hasMore)) return;
    this.#attempt?.noteStatus(head.status);
    if (this.#retries({ head })) {
      this.#exchange?.abort();
      return;
    }
    this.#ready.responses.add(head.status);
    this.#guard.onHead(head, hasMore);
  }

  onWhole(head: ResponseHead, content: string): boolean {
    const guard = this.#guard;
    // Responses that may need a retry come in pieces.
    if (guard.onWhole === undefined || !(head.status < 400)) return false;
    if (this.#ready.ending === undefined || this.#ready.options.retries > 0) return false;
    if (!guard.onWhole(head, content)) return false;
    this.#attempt?.noteStatus(head.status);
    this.#ready.responses.add(head.status);
    this.#noteDown(content.length);
    return true;
  }

  onContent(content: Buffer, release: (() => void) | undefined): boolean {
    if (this.#refusal?.add(content) === true) {
      release?.();
      return true;
    }
    // Larger than the held size: forward the response, since a long refusal is a real answer.
    this.#forwardRefusal();
    this.#noteDown(content.length);
    return this.#guard.onContent(content, release);
  }

  #noteDown(bytes: number): void {
    this.down += bytes;
    this.#shared.count.down.add(bytes);
    this.#ready.use?.down(bytes);
  }

  onEnd(trailers: readonly string[]): void {
    if (this.#refusal !== undefined) {
      this.#refusal.end(trailers);
      return;
    }
    this.#attempt?.end();
    this.#guard.onEnd(trailers.length === 0 ? trailers : incomingTrailers(trailers));
  }

  onFailure(failure: RelayFailure): void {
    this.#forwardRefusal();
    this.#attempt?.noteFailure(faultOfRelay(failure).code);
    if (!this.#retries({ failure })) this.#guard.onFailure(failure);
  }

  onDrain(): void {
    this.#guard.onDrain();
  }

  fieldsFor(head: ResponseHead): readonly string[] {
    this.#call.beginAnswer(isEventStream(head));
    return this.#incoming(head.fields, head);
  }

  linesFor(head: ResponseHead): string {
    const { lines, notable = [], notableAt = [] } = head;
    if (lines === undefined) return this.#rewrittenLines(head);
    this.#call.beginAnswer(isEventStream(head));
    if (notable.length === 0) return lines + addedLines + headerLines(this.#ready.state);
    return callerLines(this.#ready, this.#call.context, { lines, notable, notableAt });
  }

  #rewrittenLines(head: ResponseHead): string {
    return statusLine(head.status, head.reason) + headerLines(this.fieldsFor(head));
  }

  #incoming(fields: readonly string[], { isHttp2 }: ResponseHead): readonly string[] {
    return callerFields(this.#ready, this.#call.context, fields, isHttp2);
  }

  answerFailure(failure: RelayFailure): void {
    // gRPC callers read the provider's reset code as its response.
    const { resetCode } = failure;
    const isCall = isGrpc(this.#call.context.request.headers["content-type"]);
    if (isCall && resetCode !== undefined && this.#caller instanceof Http2Client) {
      this.cut("provider");
      this.#caller.reset(resetCode);
      return;
    }
    this.#shared.fail(this.#call, faultOfRelay(failure));
  }

  leave(): void {
    this.abort();
  }

  passedOn(bytes: number): void {
    this.up += bytes;
    this.#shared.count.up.add(bytes);
    this.#ready.use?.up(bytes);
  }

  takeMore(): void {
    this.#exchange?.resume();
  }

  /** Returns gRPC's status: a reset would look like a permanent error within Latchkey. */
  endOfCut(failure: RelayFailure): readonly string[] | undefined {
    return isGrpc(this.#call.context.request.headers["content-type"]) ? grpcTrailers(failure) : undefined;
  }

  cut(by: "caller" | "provider"): void {
    this.#shared.count.proxyCut.inc({ by });
    this.#ready.use?.noteCut(by);
  }
}

interface RequestPreparation {
  readonly ready: ProviderCall;
  readonly content: Uint8Array | undefined;
  /** The head may be reused for the next request. */
  readonly isKept: boolean;
}

const safe = new Set(["GET", "HEAD", "OPTIONS"]);

/** A request with its connection. */
export interface PreparedRequest {
  readonly call: ProxyCall;
  readonly ready: ProviderCall;
  readonly content: Uint8Array | undefined;
  readonly trace: ProxyTrace | undefined;
}
