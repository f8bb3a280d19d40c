import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type FollowResponse, FollowResponseSchema } from "../../gen/latchkey/v1/edge_pb.ts";

type ResponseInit = NonNullable<MessageInitShape<typeof FollowResponseSchema>["message"]>;

/** Up to this many waiting messages, producers need not wait. */
const maxAhead = 1_000;

/**
 * Messages that wait for an edge to read. Of changes of the same subject, only the last one waits, so there are never
 * more than the subjects that the edge follows, and the answers to its own requests.
 */
export class EdgeOutbox {
  #waiting = new Map<string, FollowResponse>();
  #answers = 0;
  #end: { readonly error: unknown } | undefined;
  #wake = () => {};
  #onRoom: (() => void)[] = [];
  /** When the edge last took a message, by the monotonic clock. */
  takenAtMs = performance.now();

  get size(): number {
    return this.#waiting.size;
  }

  /** Replaces a waiting message of the same subject. */
  put(subject: string, message: ResponseInit): void {
    // At the end: the message may depend on others that were put since.
    this.#waiting.delete(subject);
    if (this.#waiting.size === 0) this.takenAtMs = performance.now();
    this.#waiting.set(subject, create(FollowResponseSchema, { message }));
    this.#wake();
  }

  answer(message: ResponseInit): void {
    this.#answers += 1;
    this.put(`answer ${this.#answers}`, message);
  }

  /** Drops a waiting message of a subject that the edge no longer follows. */
  cancel(subject: string): void {
    this.#waiting.delete(subject);
  }

  /** Ends the stream, at once and with this error if there is one. */
  end(error?: unknown): void {
    this.#end ??= { error };
    this.#wake();
    this.#tellRoom();
  }

  /** Resolves when few messages wait, or the stream has ended. */
  async room(): Promise<void> {
    while (this.#waiting.size >= maxAhead && this.#end === undefined) {
      await new Promise<void>((resolve) => this.#onRoom.push(resolve));
    }
  }

  async *messages(signal: AbortSignal): AsyncGenerator<FollowResponse> {
    const wake = () => this.#wake();
    signal.addEventListener("abort", wake);
    try {
      while (!signal.aborted) {
        if (this.#end !== undefined) {
          if (this.#end.error !== undefined) throw this.#end.error;
          return;
        }
        const [next] = this.#waiting;
        if (next === undefined) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          continue;
        }
        const [subject, response] = next;
        this.#waiting.delete(subject);
        this.takenAtMs = performance.now();
        if (this.#waiting.size < maxAhead) this.#tellRoom();
        yield response;
      }
    } finally {
      signal.removeEventListener("abort", wake);
      this.end();
      this.#waiting.clear();
    }
  }

  #tellRoom(): void {
    const all = this.#onRoom;
    this.#onRoom = [];
    for (const tell of all) tell();
  }
}
