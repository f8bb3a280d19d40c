import type { ResponseHead } from "../../relay/http1/response-head.ts";
import type { ResponseReceiver } from "../../relay/response-receiver.ts";

/** Fits usual refusals; a larger response is handled like any other. */
const maxHeldBytes = 64 * 1024;

/** The beginning of a response, or all of a small one, that may still be forwarded. */
export class HeldResponse {
  readonly #head: ResponseHead;
  readonly #hasMore: boolean;
  #content: Buffer[] = [];
  #bytes = 0;
  #trailers: readonly string[] | undefined;

  constructor(head: ResponseHead, hasMore: boolean) {
    this.#head = head;
    this.#hasMore = hasMore;
  }

  /** Copies `content`. Returns false if that exceeds the limit. */
  add(content: Buffer): boolean {
    if (this.#bytes + content.length > maxHeldBytes) return false;
    this.#bytes += content.length;
    this.#content.push(Buffer.from(content));
    return true;
  }

  end(trailers: readonly string[]): void {
    this.#trailers = trailers;
  }

  forward(to: ResponseReceiver): void {
    to.onHead(this.#head, this.#hasMore);
    for (const content of this.#content) to.onContent(content, undefined);
    if (this.#trailers !== undefined) to.onEnd(this.#trailers);
  }
}
