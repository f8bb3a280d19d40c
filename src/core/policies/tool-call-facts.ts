import type { JsonObject } from "@bufbuild/protobuf";
import type { RequestFacts } from "./facts.ts";
import { parseJsonBody } from "./json-value.ts";
import { anyCallOf, type MessageFacts, noMessage } from "./message-facts.ts";
import { type JudgedParties, PartyFacts } from "./party-facts.ts";
import { EvaluationFailure, type EvaluationResult } from "./values.ts";

/**
 * A message for Latchkey's own MCP endpoint. Prompts and resources have the name of a tool as well: the same script may
 * be both, and a policy about one of them is about what it does.
 */
export type OwnMessage =
  | { readonly kind: "call"; readonly method: string; readonly tool: string; readonly arguments: JsonObject }
  /** Any call of a tool, as when tools are listed. */
  | { readonly kind: "any call"; readonly method: string; readonly tool: string }
  | { readonly kind: "other"; readonly method: string };

/** A message for Latchkey's own MCP endpoint, and who sends it. */
export interface JudgedOwnMessage extends JudgedParties {
  readonly message: OwnMessage;
  /** Why there are no values of a request to a provider. */
  readonly request: EvaluationFailure;
}

/** The message becomes no request to a provider: conditions that need one fail, which counts against the message. */
export const noRequest = new EvaluationFailure("a message for Latchkey itself is no request to a provider");
/** The message becomes a request to a provider, which is judged with its values later. */
export const laterRequest = new EvaluationFailure("the request is not made yet", { isUnknown: true });

/** Returns what conditions see of a message. Arguments are read when the first condition needs them. */
export function messageFactsOf(message: OwnMessage): MessageFacts {
  switch (message.kind) {
    case "call":
      return new CallFacts(message);
    case "any call":
      return anyCallOf(message.tool, message.method);
    case "other":
      return { ...noMessage, method: message.method };
  }
}

class CallFacts implements MessageFacts {
  readonly method: string;
  readonly tool: string;
  readonly #given: JsonObject;
  #arguments: EvaluationResult | undefined;

  constructor({ method, tool, arguments: given }: Extract<OwnMessage, { readonly kind: "call" }>) {
    this.method = method;
    this.tool = tool;
    this.#given = given;
  }

  /** Read as those of a message to another server are: the same numbers, depth and size. */
  get arguments(): EvaluationResult {
    this.#arguments ??= parseJsonBody(Buffer.from(JSON.stringify(this.#given)));
    return this.#arguments;
  }
}

/** What conditions see of a message for Latchkey's own MCP endpoint. */
export class OwnMessageFacts extends PartyFacts implements RequestFacts {
  readonly #message: MessageFacts;
  readonly #request: EvaluationFailure;

  constructor(judged: JudgedOwnMessage) {
    super(judged);
    this.#message = messageFactsOf(judged.message);
    this.#request = judged.request;
  }

  get method(): EvaluationFailure {
    return this.#request;
  }

  get host(): EvaluationFailure {
    return this.#request;
  }

  get path(): EvaluationFailure {
    return this.#request;
  }

  get rawPath(): EvaluationFailure {
    return this.#request;
  }

  get query(): EvaluationFailure {
    return this.#request;
  }

  get headers(): EvaluationFailure {
    return this.#request;
  }

  get body(): EvaluationFailure {
    return this.#request;
  }

  get size(): EvaluationFailure {
    return this.#request;
  }

  get mcpMethod(): string | EvaluationFailure {
    return this.#message.method;
  }

  get mcpTool(): string | EvaluationFailure {
    return this.#message.tool;
  }

  get mcpArguments(): EvaluationResult {
    return this.#message.arguments;
  }
}
