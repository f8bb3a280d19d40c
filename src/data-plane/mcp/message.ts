import { Fault } from "../../base/fault.ts";
import { lowerCase } from "../../base/http/field-name.ts";
import type { McpCalls } from "../../broker/mcp/open.ts";
import { type Caller, requireToolWithin } from "../../broker/setup/caller.ts";
import { bearerChallenge } from "../../core/mcp/challenge.ts";
import { discoveredServer } from "../../core/mcp/discovered-server.ts";
import { checkMessageHeaders, HeaderMismatch, messageHeaders } from "../../core/mcp/message-headers.ts";
import { MessageMistake, MessageScanner, type RpcMessage } from "../../core/mcp/message-scanner.ts";
import type { Exchange } from "../../relay/exchange.ts";
import type { ProviderCall } from "../proxy/provider-call.ts";

/** JSON-RPC error codes: of MCP 2026-07-28, and of JSON-RPC 2.0. */
const headerMismatch = -32_020;
const invalidRequest = -32_600;
/** Also the answer of a server to a call of a tool that it does not have. */
const invalidParams = -32_602;

/**
 * Decides on a message whose method and tool are known, before its last bytes are sent. Throws to refuse it: what the
 * server has received by then is no JSON. The place for rules about tools.
 */
export function admitMessage({ proxied, caller }: ProviderCall, message: RpcMessage): void {
  checkMessageHeaders(messageHeaders(proxied.rawHeaders), message);
  if (caller.limits?.limitsTools === true) requireTool(caller, message);
}

/** Throws unless a caller with limits of tools may send a message. Lenient servers could take more for a call. */
function requireTool(caller: Caller, { method = "", name }: RpcMessage): void {
  if (method.normalize("NFKC").trim().toLowerCase() !== "tools/call") return;
  if (method !== "tools/call" || name === undefined) {
    throw new MessageMistake("a call of a tool must have the method tools/call and the text params.name");
  }
  requireToolWithin(caller, name);
}

/** Returns the fault of a refused message as the JSON-RPC error that answers it. */
export function asRpcFault(call: ProviderCall, content: Uint8Array, error: unknown): unknown {
  if (!(error instanceof Fault) || !carriesMessage(call)) return error;
  const scanner = new MessageScanner();
  try {
    scanner.push(content);
  } catch (mistake) {
    // What cannot be read has no id to answer; the mistake says more than the refusal that it led to.
    return faultOf(mistake, scanner);
  }
  return faultOf(error, scanner);
}

/** Whether the body of a call is a message that must be checked. */
export const carriesMessage = ({ live, proxied }: ProviderCall): boolean =>
  live.provider.mcp !== undefined && proxied.method === "POST";

/** Checks the message of a call that was read whole, or has no body. Throws a Fault. */
export function checkContent(
  call: ProviderCall,
  content: Uint8Array | undefined,
  noteMessage: MessageOutcome["noteMessage"],
): void {
  const whole = content ?? (call.proxied.body === "none" ? empty : undefined);
  if (whole === undefined || !carriesMessage(call)) return;
  const scanner = new MessageScanner();
  try {
    requirePlain(call);
    scanner.push(whole);
    requireEnded(scanner);
    const { message } = scanner;
    noteMessage(message);
    admitMessage(call, message);
  } catch (error) {
    throw faultOf(error, scanner);
  }
}

/** Returns the message of a call that is refused before it is sent, as far as it can be read. */
export function refusedMessage(call: ProviderCall, content: Uint8Array): RpcMessage | undefined {
  if (!carriesMessage(call)) return undefined;
  const scanner = new MessageScanner();
  try {
    scanner.push(content);
    return scanner.message;
  } catch (error) {
    if (error instanceof MessageMistake) return undefined;
    throw error;
  }
}

const empty = new Uint8Array();

/** What becomes of a message that is checked on its way. */
export interface MessageOutcome {
  /** The message was read; it may yet be refused. */
  noteMessage(message: RpcMessage): void;
  /** Ends the exchange and sends the caller an error: the response has not begun. */
  refuse(fault: Fault): void;
}

/** Returns where the body of a call goes: a message is checked on its way to `exchange`. */
export const checkedBody = (exchange: Exchange, call: ProviderCall, outcome: MessageOutcome): Exchange =>
  carriesMessage(call) ? new CheckedMessage(exchange, call, outcome) : exchange;

interface McpAnswer {
  readonly status: number;
  readonly fields: readonly string[];
}

/**
 * Notes an answer of a server that wants further scopes (RFC 6750, section 3.1): the tokens themselves are fine. One that
 * refuses a token may have another issuer now.
 */
export function noteAnswer(mcp: McpCalls | undefined, { live }: ProviderCall, { status, fields }: McpAnswer): void {
  const { ref } = live.connection;
  if (mcp === undefined || ref === undefined) return;
  if (status === 401 && discoveredServer(live.provider) !== undefined)
    mcp.noteRefusedToken?.({ environment: ref.environment, key: ref.integration });
  if (status !== 403) return;
  const values = fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "www-authenticate");
  const { error, scopes } = bearerChallenge(values);
  if (error === "insufficient_scope") mcp.noteLackingScopes(ref, scopes);
}

/** Forwards a message to `exchange` as it arrives, and reads it on the way. */
class CheckedMessage implements Exchange {
  readonly #exchange: Exchange;
  readonly #call: ProviderCall;
  readonly #outcome: MessageOutcome;
  readonly #scanner = new MessageScanner();
  /** The last bytes so far, of a message that goes on: they are sent with what follows, or never. */
  #held: Buffer | undefined;
  #isAdmitted = false;
  #isRefused = false;

  constructor(exchange: Exchange, call: ProviderCall, outcome: MessageOutcome) {
    this.#exchange = exchange;
    this.#call = call;
    this.#outcome = outcome;
  }

  get mayHaveArrived(): boolean {
    return this.#exchange.mayHaveArrived;
  }

  write(bytes: Buffer): boolean {
    if (!this.#passes(() => this.#read(bytes))) return true;
    const held = this.#held;
    const takesMore = held === undefined || this.#exchange.write(held);
    if (this.#isAdmitted) {
      this.#held = undefined;
      return this.#exchange.write(bytes) && takesMore;
    }
    // A copy: the bytes are borrowed from a buffer that all sockets share.
    this.#held = Buffer.from(bytes);
    return takesMore;
  }

  end(trailers: readonly string[]): void {
    if (this.#passes(() => requireEnded(this.#scanner))) this.#exchange.end(trailers);
  }

  resume(): void {
    this.#exchange.resume();
  }

  abort(): void {
    this.#exchange.abort();
  }

  #read(bytes: Buffer): void {
    if (!this.#isAdmitted) requirePlain(this.#call);
    this.#scanner.push(bytes);
    if (this.#isAdmitted || !this.#scanner.hasEnded) return;
    this.#isAdmitted = true;
    const { message } = this.#scanner;
    this.#outcome.noteMessage(message);
    admitMessage(this.#call, message);
  }

  #passes(check: () => void): boolean {
    if (this.#isRefused) return false;
    try {
      check();
      return true;
    } catch (error) {
      this.#isRefused = true;
      this.#exchange.abort();
      this.#outcome.refuse(faultOf(error, this.#scanner));
      return false;
    }
  }
}

/** A compressed message could not be checked. */
function requirePlain({ proxied }: ProviderCall): void {
  const { rawHeaders } = proxied;
  const isEncoded = rawHeaders.some((name, i) => i % 2 === 0 && name.toLowerCase() === "content-encoding");
  if (isEncoded) throw new MessageMistake("the message must not be compressed (Content-Encoding)");
}

function requireEnded({ hasEnded }: MessageScanner): void {
  if (!hasEnded) throw new MessageMistake("the body must be a whole JSON-RPC message");
}

function faultOf(error: unknown, { message }: MessageScanner): Fault {
  const { id } = message;
  if (error instanceof HeaderMismatch) {
    return Fault.withoutStack("header_mismatch", error.message, { rpcError: { code: headerMismatch, id } });
  }
  if (error instanceof MessageMistake) {
    return Fault.withoutStack("invalid_message", error.message, { rpcError: { code: invalidRequest, id } });
  }
  if (!(error instanceof Fault)) throw error;
  const { code, metadata } = error;
  return Fault.withoutStack(code, error.message, { rpcError: { code: invalidParams, id }, metadata });
}
