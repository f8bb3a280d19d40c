import type { JsonObject } from "@bufbuild/protobuf";
import { type ClientLogLevel, logMessage } from "../../core/mcp-endpoint/log-level.ts";
import type { AnswerStream, RouteAnswer } from "../server/routes.ts";
import type { CallWatch } from "./tool-call.ts";

/** The messages that a client gets before the answer. */
export interface EventAnswer {
  readonly watch: Pick<CallWatch, "noteProgress" | "noteLine">;
  /** Asks the client. From then on the answer lasts as long as the client, until it has answered. */
  ask(message: JsonObject): void;
  /**
   * Resolves with the answer: as JSON if nothing came before it, else as a stream of events whose last one is the
   * answer. `failed` makes an answer of an error that comes once the stream has begun.
   */
  resolve(answer: Promise<RouteAnswer>, failed: (error: unknown) => JsonObject): Promise<RouteAnswer>;
}

interface EventAnswerOptions {
  /** Undefined: the client does not ask how far the request is. */
  readonly token: string | number | undefined;
  /** The least important log messages that the client wants; undefined: none. */
  readonly least: ClientLogLevel | undefined;
}

/** A script that says more than that of its progress, or logs more, is not passed on. */
const maxMessages = 1_000;
/** Other parties close connections on which nothing comes. */
export const keepAliveMs = 15_000;

export function createEventAnswer({ token, least }: EventAnswerOptions): EventAnswer {
  const begun = Promise.withResolvers<"stream">();
  const waiting: JsonObject[] = [];
  let stream: AnswerStream | undefined;
  let asks = false;

  function send(message: JsonObject): void {
    if (stream === undefined) waiting.push(message);
    else if (!stream.isFull()) stream.write(eventOf(message));
    begun.resolve("stream");
  }

  return {
    watch: {
      noteProgress: token === undefined ? undefined : progressNotes(token, send),
      noteLine: least === undefined ? undefined : lineNotes(least, send),
    },
    ask(message) {
      asks = true;
      stream?.cutAtStop();
      // None is left out: the call waits for the answer.
      if (stream === undefined) send(message);
      else stream.write(eventOf(message));
    },
    async resolve(answer, failed) {
      const first = await Promise.race([answer, begun.promise]);
      if (first !== "stream") return first;
      return {
        status: 200,
        body: undefined,
        headers: { "content-type": "text/event-stream" },
        async stream(to) {
          stream = to;
          if (asks) to.cutAtStop();
          for (const one of waiting.splice(0)) to.write(eventOf(one));
          const alive = setInterval(() => to.write(keepAlive), keepAliveMs);
          const body = await answer.then(
            (found) => found.body as JsonObject,
            (error: unknown) => failed(error),
          );
          clearInterval(alive);
          to.write(eventOf(body));
        },
      };
    },
  };
}

/** A comment, which clients ignore. */
export const keepAlive = ": still open\n\n";

export const eventOf = (message: JsonObject): string => `event: message\ndata: ${JSON.stringify(message)}\n\n`;

type Send = (message: JsonObject) => void;

function progressNotes(progressToken: string | number, send: Send): NonNullable<CallWatch["noteProgress"]> {
  let count = 0;
  let last = Number.NEGATIVE_INFINITY;
  return ({ progress, total, message }) => {
    // The protocol wants each value to be larger than the one before.
    if (progress <= last || count >= maxMessages) return;
    last = progress;
    count += 1;
    const params: JsonObject = {
      progressToken,
      progress,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message }),
    };
    send({ jsonrpc: "2.0", method: "notifications/progress", params });
  };
}

function lineNotes(least: ClientLogLevel, send: Send): NonNullable<CallWatch["noteLine"]> {
  let count = 0;
  return (line, logger) => {
    const message = logMessage(line, { least, logger });
    if (message === undefined || count >= maxMessages) return;
    count += 1;
    send(message);
  };
}
