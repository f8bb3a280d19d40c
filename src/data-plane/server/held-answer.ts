import type { ResponseHead } from "../../relay/http1/response-head.ts";
import type { ResponseReceiver } from "../../relay/response-receiver.ts";

/** What a refusal says of itself fits in here; what is larger is an answer like any other. */
const maxHeldBytes = 64 * 1024;

/** The beginning of an answer, or all of a small one, that may yet be handed on. */
export class HeldAnswer {
  readonly #head: ResponseHead;
  readonly #hasMore: boolean;
  #content: Buffer[] = [];
  #bytes = 0;
  #trailers: readonly string[] | undefined;

  constructor(head: ResponseHead, hasMore: boolean) {
    this.#head = head;
    this.#hasMore = hasMore;
  }

  /** Copies it. Returns false when that is more than is held. */
  add(content: Buffer): boolean {
    if (this.#bytes + content.length > maxHeldBytes) return false;
    this.#bytes += content.length;
    this.#content.push(Buffer.from(content));
    return true;
  }

  end(trailers: readonly string[]): void {
    this.#trailers = trailers;
  }

  handOn(to: ResponseReceiver): void {
    to.onHead(this.#head, this.#hasMore);
    for (const content of this.#content) to.onContent(content, undefined);
    if (this.#trailers !== undefined) to.onEnd(this.#trailers);
  }
}
