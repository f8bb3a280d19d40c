import { type CelMap, celMap } from "@bufbuild/cel";
import { lowerCase } from "../../base/http/field-name.ts";
import { isAmbiguousPath } from "../access/path-pattern.ts";
import { asksForOtherMethod } from "../access/requested-methods.ts";
import type { HeaderFacts, RequestFacts } from "./facts.ts";
import { parseJsonBody } from "./json-value.ts";
import type { JudgedBody } from "./judged-body.ts";
import { policyLimits } from "./limits.ts";
import { LazyMessageFacts, type MessageFacts, noMessage } from "./message-facts.ts";
import { type JudgedParties, PartyFacts } from "./party-facts.ts";
import { EvaluationFailure, type EvaluationResult } from "./values.ts";

/** A request as it will be sent to the provider, and who sends it. */
export interface JudgedRequest extends JudgedParties {
  readonly method: string;
  /** `api.example.com`, with its port unless that is the default of the scheme. */
  readonly host: string;
  readonly basePath: string;
  /** The part after the base path, with its query. */
  readonly path: string;
  /** The caller's fields: name, value, name, value. */
  readonly rawHeaders: readonly string[];
  /** Returns those of the caller's fields that are sent. Called when a condition reads them. */
  readonly sentHeaders: () => readonly string[];
  readonly body: JudgedBody;
  /** The MCP message that the request carries, or whether its body is one. */
  readonly message: MessageFacts | "body" | "none";
}

/** Marks a body that was not read yet: the result of a condition that needs it is unknown. */
export const bodyNotRead = new EvaluationFailure("the body was not read", { isUnknown: true });
const noSize = new EvaluationFailure("the size of a streamed body is not known");
const tooManyHeaders = new EvaluationFailure(`the request has more than ${policyLimits.headers} headers`);
const tooManyValues = new EvaluationFailure(`the query has more than ${policyLimits.queryValues} values`);
const badQuery = new EvaluationFailure("the query is not well encoded");
const badPath = new EvaluationFailure("servers may disagree about the segments of the path");
const otherMethod = new EvaluationFailure("the request asks the provider to take it for one of another method");

/** Makes the values of a request when a condition first reads them. */
export class LazyRequestFacts extends PartyFacts implements RequestFacts {
  readonly method: string | EvaluationFailure;
  readonly host: string;
  readonly #request: JudgedRequest;
  #path: string | EvaluationFailure | undefined;
  #query: CelMap | EvaluationFailure | undefined;
  #headers: HeaderFacts | EvaluationFailure | undefined;
  #body: EvaluationResult | undefined;
  #message: MessageFacts | undefined;

  constructor(request: JudgedRequest) {
    super(request);
    this.#request = request;
    this.method = asksForOtherMethod(request) ? otherMethod : request.method;
    this.host = request.host;
  }

  get path(): string | EvaluationFailure {
    this.#path ??= decodedPath(this.rawPath);
    return this.#path;
  }

  get rawPath(): string {
    const { basePath, path } = this.#request;
    return basePath + path.slice(0, endOfPath(path));
  }

  get query(): CelMap | EvaluationFailure {
    this.#query ??= queryOf(this.#request.path);
    return this.#query;
  }

  get headers(): HeaderFacts | EvaluationFailure {
    this.#headers ??= headersOf(this.#request.sentHeaders());
    return this.#headers;
  }

  get body(): EvaluationResult {
    this.#body ??= bodyOf(this.#request.body);
    return this.#body;
  }

  get size(): bigint | EvaluationFailure {
    return sizeOf(this.#request.body);
  }

  get #messageFacts(): MessageFacts {
    this.#message ??= this.#readMessage();
    return this.#message;
  }

  #readMessage(): MessageFacts {
    const { message, rawHeaders, body } = this.#request;
    if (message === "none") return noMessage;
    return message === "body" ? new LazyMessageFacts({ rawHeaders, body, parsed: () => this.body }) : message;
  }

  get mcpMethod(): string | EvaluationFailure {
    return this.#messageFacts.method;
  }

  get mcpTool(): string | EvaluationFailure {
    return this.#messageFacts.tool;
  }

  get mcpArguments(): EvaluationResult {
    return this.#messageFacts.arguments;
  }
}

function bodyOf(body: JudgedBody): EvaluationResult {
  switch (body.kind) {
    case "none":
      return null;
    case "bytes":
      return body.bytes.length === 0 ? null : parseJsonBody(body.bytes);
    case "unread":
      return bodyNotRead;
    case "refused":
      return body.failure;
  }
}

function sizeOf(body: JudgedBody): bigint | EvaluationFailure {
  switch (body.kind) {
    case "none":
      return 0n;
    case "bytes":
      return BigInt(body.bytes.length);
    case "unread":
    case "refused":
      return body.size === undefined ? noSize : BigInt(body.size);
  }
}

const endOfPath = (path: string): number => {
  const at = path.indexOf("?");
  return at === -1 ? path.length : at;
};

/** Returns a path without its query as conditions see it. */
export function decodedPath(whole: string): string | EvaluationFailure {
  if (isAmbiguousPath(whole)) return badPath;
  return whole.includes("%") ? decodeURIComponent(whole) : whole;
}

function queryOf(path: string): CelMap | EvaluationFailure {
  const values = new Map<string, string[]>();
  const text = path.slice(endOfPath(path) + 1);
  if (text === "") return celMap(values);
  const pairs = text.split("&");
  if (pairs.length > policyLimits.queryValues) return tooManyValues;
  try {
    for (const pair of pairs) {
      if (pair === "") continue;
      const at = pair.indexOf("=");
      const name = decodeField(at === -1 ? pair : pair.slice(0, at));
      const value = at === -1 ? "" : decodeField(pair.slice(at + 1));
      const known = values.get(name);
      if (known === undefined) values.set(name, [value]);
      else known.push(value);
    }
  } catch {
    // A percent sign without two digits, or bytes that are not UTF-8: the provider may read anything.
    return badQuery;
  }
  return celMap(values);
}

const decodeField = (text: string): string => decodeURIComponent(text.replaceAll("+", " "));

function headersOf(pairs: readonly string[]): HeaderFacts | EvaluationFailure {
  return pairs.length > policyLimits.headers * 2 ? tooManyHeaders : new LazyHeaders(pairs);
}

/** Most conditions read one header: it is searched, and a map is made for the second one. */
class LazyHeaders implements HeaderFacts {
  readonly #pairs: readonly string[];
  #values: ReadonlyMap<string, string> | undefined;
  #name: string | undefined;
  #value: string | undefined;

  constructor(pairs: readonly string[]) {
    this.#pairs = pairs;
  }

  get(name: string): string | undefined {
    if (this.#name === name) return this.#value;
    if (this.#name !== undefined) return this.#all().get(name);
    this.#name = name;
    this.#value = valueIn(this.#pairs, name);
    return this.#value;
  }

  get map(): CelMap {
    return celMap(this.#all());
  }

  #all(): ReadonlyMap<string, string> {
    this.#values ??= valuesIn(this.#pairs);
    return this.#values;
  }
}

const joined = (known: string | undefined, value: string): string =>
  known === undefined ? value : `${known}, ${value}`;

function valueIn(pairs: readonly string[], name: string): string | undefined {
  let found: string | undefined;
  for (let i = 0; i < pairs.length; i += 2) {
    const one = pairs[i] ?? "";
    if (one.length === name.length && lowerCase(one) === name) found = joined(found, pairs[i + 1] ?? "");
  }
  return found;
}

function valuesIn(pairs: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (let i = 0; i < pairs.length; i += 2) {
    const name = lowerCase(pairs[i] ?? "");
    values.set(name, joined(values.get(name), pairs[i + 1] ?? ""));
  }
  return values;
}
