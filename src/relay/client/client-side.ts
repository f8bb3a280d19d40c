import { lowerCase } from "../../base/http/field-name.ts";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import type { ResponseReceiver } from "../response-receiver.ts";

/** Rules of a response on its way to a client, as far as the relay does not know them. */
export interface AnswerRules {
  /** Returns the headers for the client: name, value, name, value. */
  fieldsFor(head: ResponseHead): readonly string[];
  /** Returns the same headers as text that follows the status line; latin1. */
  linesFor(head: ResponseHead): string;
  /** Answers the client after a failure. Nothing has been sent to the client yet. */
  answerFailure(failure: RelayFailure): void;
  /** The client has left and does not wait for the response. */
  leave(): void;
  /** Called when this many bytes of the request body have been forwarded. */
  passedOn(bytes: number): void;
  /** The client takes more bytes. */
  takeMore(): void;
  cut(by: "caller" | "provider"): void;
  /**
   * Returns the trailers that report a truncated response in the client's own protocol; undefined: a reset has to
   * report the truncation.
   */
  endOfCut?(failure: RelayFailure): readonly string[] | undefined;
}

/** The client side of the relay for one request: forwards the response as it arrives, and the request body. */
export interface ClientSide extends ResponseReceiver {
  /** From now on the request body goes to `exchange`, followed by the trailers that may be forwarded. */
  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void;
}

/** After the response is complete, the rest of the request may take this long before the connection is cut. */
export const cutAfterMs = 1_000;

/** RFC 9110, 6.5.1: fields for framing, routing, authentication or payload processing must not be trailers. */
const notInTrailers = new Set([
  "authorization",
  "connection",
  "content-encoding",
  "content-length",
  "content-range",
  "content-type",
  "cookie",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "set-cookie",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Returns those trailers that may follow a body: name, value, name, value. */
export const trailersIn = (trailers: readonly string[]): string[] =>
  trailers.filter((_, i) => !notInTrailers.has(lowerCase(trailers[i - (i % 2)] ?? "")));

/** Returns the links of an Early Hints response (103); the rest is not forwarded. */
export function linksIn({ status, fields }: ResponseHead): readonly string[] {
  if (status !== 103) return [];
  return fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "link");
}
