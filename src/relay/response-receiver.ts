import type { RelayFailure } from "./failure.ts";
import type { ResponseHead } from "./http1/response-head.ts";

/** Callbacks of an exchange. First a head, then content, then `onEnd` or `onFailure` as the last. */
export interface ResponseReceiver {
  /** A 1xx response except 101. */
  onInformational(head: ResponseHead): void;
  /** `hasMore`: content follows at once. */
  onHead(head: ResponseHead, hasMore: boolean): void;
  /**
   * Replaces `onHead` and `onContent` for a whole small response, as text with one byte a character; `onEnd` follows.
   * Returns false if the receiver wants pieces; nothing has happened then.
   */
  onWhole?(head: ResponseHead, content: string): boolean;
  /**
   * `content` must not be kept after the return, unless `release` is given: then the receiver owns `content` until
   * the receiver calls `release`. Returns false when the receiver wants no more until `resume`.
   */
  onContent(content: Buffer, release: (() => void) | undefined): boolean;
  /** Name, value, name, value. */
  onEnd(trailers: readonly string[]): void;
  onFailure(failure: RelayFailure): void;
  /** More of the request body can be written. */
  onDrain(): void;
}

/** Returns a receiver that forwards every callback. Spread the receiver into one that overrides some callbacks. */
export const forwardingReceiver = (to: ResponseReceiver): ResponseReceiver => ({
  onInformational: (head) => to.onInformational(head),
  onHead: (head, hasMore) => to.onHead(head, hasMore),
  onContent: (content, release) => to.onContent(content, release),
  onEnd: (trailers) => to.onEnd(trailers),
  onFailure: (failure) => to.onFailure(failure),
  onDrain: () => to.onDrain(),
});
