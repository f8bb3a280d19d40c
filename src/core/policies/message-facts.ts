import { type CelMap, celMap, isCelMap } from "@bufbuild/cel";
import { messageHeaders } from "../mcp/message-headers.ts";
import { MessageScanner, type RpcMessage } from "../mcp/message-scanner.ts";
import type { JudgedBody } from "./judged-body.ts";
import { EvaluationFailure, type EvaluationResult } from "./values.ts";

/** What conditions see of the message of an MCP client. All empty: the request carries none. */
export interface MessageFacts {
  readonly method: string | EvaluationFailure;
  /** The tool of a `tools/call`; empty for any other method. */
  readonly tool: string | EvaluationFailure;
  readonly arguments: EvaluationResult;
}

const emptyMap = celMap(new Map());

export const noMessage: MessageFacts = { method: "", tool: "", arguments: emptyMap };

const callMethod = "tools/call";

/** Returns the facts of a call of a tool whose arguments are not known yet, as when tools are listed. */
export const anyCallOf = (tool: string, method = callMethod): MessageFacts => ({ method, tool, arguments: notKnown });

const notKnown = new EvaluationFailure("the arguments are not known", { isUnknown: true });
const notRead = new EvaluationFailure("the message was not read", { isUnknown: true });
const unreadable = new EvaluationFailure("the message cannot be read");
const notArguments = new EvaluationFailure("the arguments of the tool are not an object");

interface MessageSource {
  readonly rawHeaders: readonly string[];
  readonly body: JudgedBody;
  /** Returns the body as JSON, which conditions may have read already. */
  readonly parsed: () => EvaluationResult;
}

type MessageNames = Pick<MessageFacts, "method" | "tool">;

/** Reads a message when a condition first needs it. */
export class LazyMessageFacts implements MessageFacts {
  readonly #source: MessageSource;
  #names: MessageNames | undefined;

  constructor(source: MessageSource) {
    this.#source = source;
  }

  get method(): string | EvaluationFailure {
    return this.#named.method;
  }

  get tool(): string | EvaluationFailure {
    return this.#named.tool;
  }

  get arguments(): EvaluationResult {
    const { tool } = this;
    if (tool instanceof EvaluationFailure) return tool;
    return tool === "" ? emptyMap : argumentsIn(this.#source.parsed());
  }

  get #named(): MessageNames {
    this.#names ??= namesIn(this.#source);
    return this.#names;
  }
}

function namesIn({ rawHeaders, body }: MessageSource): MessageNames {
  if (body.kind === "bytes" && body.bytes.length > 0) return namesInBytes(body.bytes);
  const byHeaders = namesInHeaders(rawHeaders);
  if (byHeaders !== undefined) return byHeaders;
  if (body.kind === "unread") return { method: notRead, tool: notRead };
  return body.kind === "refused" ? { method: body.failure, tool: body.failure } : noMessage;
}

function namesInBytes(bytes: Uint8Array): MessageNames {
  const scanner = new MessageScanner();
  try {
    scanner.push(bytes);
  } catch {
    // The message is refused later, with what is wrong; here it counts against the request.
    return { method: unreadable, tool: unreadable };
  }
  return scanner.hasEnded ? namesOf(scanner.message) : { method: unreadable, tool: unreadable };
}

/** Returns the tool that a message calls; empty if it calls none, or cannot be read. */
export function calledTool(message: Uint8Array): string {
  const { tool } = namesInBytes(message);
  return tool instanceof EvaluationFailure ? "" : tool;
}

function namesOf({ method = "", name }: Pick<RpcMessage, "method" | "name">): MessageNames {
  return { method, tool: method === callMethod ? (name ?? unreadable) : "" };
}

/**
 * Clients of 2026-07-28 repeat both in headers. A request whose message says something else is refused before its last
 * byte is sent, so the body need not be read.
 */
function namesInHeaders(rawHeaders: readonly string[]): MessageNames | undefined {
  try {
    const { method, name } = messageHeaders(rawHeaders);
    if (method === undefined || (method === callMethod && name === undefined)) return undefined;
    return namesOf({ method, name });
  } catch {
    return { method: unreadable, tool: unreadable };
  }
}

function argumentsIn(message: EvaluationResult): CelMap | EvaluationFailure {
  if (message instanceof EvaluationFailure) return message;
  const params = isMap(message) ? message.get("params") : undefined;
  if (!isMap(params)) return notArguments;
  const given = params.get("arguments") ?? emptyMap;
  return isMap(given) ? given : notArguments;
}

const isMap = (value: unknown): value is CelMap => isCelMap(value as CelMap);
