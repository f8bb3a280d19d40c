import { lowerCase } from "../../base/http/field-name.ts";
import type { Exchange } from "../exchange.ts";
import type { RelayFailure } from "../failure.ts";
import type { ResponseReceiver } from "../http1/connection.ts";
import type { ResponseHead } from "../http1/response-head.ts";

/** What the relay does not know of an answer on its way to a caller. */
export interface AnswerRules {
  /** The fields that the caller is to see: name, value, name, value. */
  fieldsFor(head: ResponseHead): readonly string[];
  /** The same, written out behind the status line; latin1. */
  linesFor(head: ResponseHead): string;
  /** Nothing has been sent to the caller yet; it is this one's to answer. */
  answerFailure(failure: RelayFailure): void;
  /** The caller is gone: nobody waits for the answer. */
  leave(): void;
  /** So many bytes of the request's body have gone on. */
  passedOn(bytes: number): void;
  /** The caller takes more. */
  takeMore(): void;
  cut(by: "caller" | "provider"): void;
  /** What says behind an answer, in the caller's own protocol, that it was cut; undefined: a reset has to. */
  endOfCut?(failure: RelayFailure): readonly string[] | undefined;
}

/** The half of the relay that faces a caller, of one request: hands an answer on as it comes, and the request's body. */
export interface ClientSide extends ResponseReceiver {
  /** From now on the request's body goes there, and behind it what of its trailers may. */
  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void;
}

/** Of a request whose answer is complete, the rest is not waited for. */
export const cutAfterMs = 1_000;

/** RFC 9110, 6.5.1: what frames, routes, authenticates or changes a message has no business behind it. */
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

/** Name, value, name, value: of what came behind a body, that which may stand there. */
export const trailersIn = (trailers: readonly string[]): string[] =>
  trailers.filter((_, i) => !notInTrailers.has(lowerCase(trailers[i - (i % 2)] ?? "")));

/** Of a hint that came before an answer, the links: more is not handed on. */
export function linksIn({ status, fields }: ResponseHead): readonly string[] {
  if (status !== 103) return [];
  return fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "link");
}
