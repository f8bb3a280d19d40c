import type { JsonObject } from "@bufbuild/protobuf";
import type { ScriptProgress } from "../../core/scripts/script.ts";
import type { AnswerStream, RouteAnswer } from "../server/routes.ts";

/** The messages that a client gets before the answer. */
export interface EventAnswer {
  readonly noteProgress: (progress: ScriptProgress) => void;
  /**
   * Resolves with the answer: as JSON if nothing came before it, else as a stream of events whose last one is the
   * answer. `failed` makes an answer of an error that comes once the stream has begun.
   */
  resolve(answer: Promise<RouteAnswer>, failed: (error: unknown) => JsonObject): Promise<RouteAnswer>;
}

interface EventAnswerOptions {
  readonly token: string | number;
}

/** A script that says more of its progress than that is not passed on. */
const maxMessages = 1_000;

export function createEventAnswer({ token }: EventAnswerOptions): EventAnswer {
  const begun = Promise.withResolvers<"stream">();
  const waiting: JsonObject[] = [];
  let stream: AnswerStream | undefined;
  let count = 0;
  let last = Number.NEGATIVE_INFINITY;

  function noteProgress({ progress, total, message }: ScriptProgress): void {
    // The protocol wants each value to be larger than the one before.
    if (progress <= last || count >= maxMessages) return;
    last = progress;
    count += 1;
    const params: JsonObject = {
      progressToken: token,
      progress,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message }),
    };
    const sent: JsonObject = { jsonrpc: "2.0", method: "notifications/progress", params };
    if (stream === undefined) waiting.push(sent);
    else if (!stream.isFull()) stream.write(eventOf(sent));
    begun.resolve("stream");
  }

  return {
    noteProgress,
    async resolve(answer, failed) {
      const first = await Promise.race([answer, begun.promise]);
      if (first !== "stream") return first;
      return {
        status: 200,
        body: undefined,
        headers: { "content-type": "text/event-stream" },
        async stream(to) {
          stream = to;
          for (const one of waiting.splice(0)) to.write(eventOf(one));
          const body = await answer.then(
            (found) => found.body as JsonObject,
            (error: unknown) => failed(error),
          );
          to.write(eventOf(body));
        },
      };
    },
  };
}

const eventOf = (message: JsonObject): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`;
