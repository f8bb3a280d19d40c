import type { JsonObject } from "@bufbuild/protobuf";
import type { AnswerStream } from "../../server/routes.ts";
import { eventOf, keepAlive, keepAliveMs } from "../event-answer.ts";

/** Writes the messages of a stream that stays open. */
export class EventWriter {
  readonly #to: AnswerStream;
  #writtenMs = performance.now();

  constructor(to: AnswerStream) {
    this.#to = to;
  }

  write(message: JsonObject): void {
    this.#writeText(eventOf(message));
  }

  /** Call often: writes a comment when nothing was written for a while. */
  keepAlive(): void {
    if (performance.now() - this.#writtenMs >= keepAliveMs) this.#writeText(keepAlive);
  }

  #writeText(text: string): void {
    this.#to.write(text);
    this.#writtenMs = performance.now();
  }
}
