import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { lowerCase } from "../base/field-name.ts";
import type { Receiver } from "./connection.ts";
import type { RelayFailure } from "./failure.ts";
import type { ResponseHead } from "./response-head.ts";
import type { Exchange } from "./upstream.ts";

/** The half of the relay that faces a caller on `node:http`: hands an answer on as it comes, and the body of its request. */
export interface Caller {
  readonly receiver: Receiver;
  /** From now on the request's body goes there, and behind it what of its trailers may. */
  sendBody(exchange: Exchange, fieldsOf: (trailers: readonly string[]) => readonly string[]): void;
}

interface CallerOptions {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The fields that the caller is to see: name, value, name, value. */
  readonly fieldsFor: (head: ResponseHead) => readonly string[];
  /** Nothing has been sent to the caller yet; it is the options' to answer. */
  readonly onFailure: (failure: RelayFailure) => void;
  /** The caller is gone: nobody waits for the answer. */
  readonly onLeave: () => void;
  /** The caller takes more. */
  readonly onMore: () => void;
  readonly onCut: (by: "caller" | "provider") => void;
}

/** A small answer goes out in one piece with its head: as text, which Node joins. */
const smallBytes = 16 * 1024;
/** Of a request whose answer is complete, the rest is not waited for. */
const cutAfterMs = 1_000;

export function createCaller(options: CallerOptions): Caller {
  const { request, response, fieldsFor, onFailure, onLeave, onMore, onCut } = options;
  let framing: ResponseHead["framing"] = "none";
  let received = 0;
  let last: string | undefined;
  let isOver = false;
  let isListeningForDrain = false;
  const lent = new Set<() => void>();
  // What the provider left out, we do not add.
  response.sendDate = false;

  response.on("close", () => {
    // What waited behind another answer of the connection is dropped without a word.
    for (const giveBack of lent) giveBack();
    // Over, or answered in another way.
    if (isOver || response.writableFinished) return;
    isOver = true;
    if (response.headersSent) onCut("caller");
    onLeave();
  });

  const receiver: Receiver = {
    onInformational({ status, fields }) {
      const links = fields.filter((_, i) => i % 2 === 1 && lowerCase(fields[i - 1] ?? "") === "link");
      // RFC 9110, 15.2: HTTP/1.0 knows nothing of the kind.
      if (status !== 103 || links.length === 0 || response.headersSent || request.httpVersion === "1.0") return;
      try {
        response.writeEarlyHints({ link: links });
      } catch {
        /* Node writes fewer kinds of links than there are, and a hint is not worth an answer. */
      }
    },
    onHead(head, hasMore) {
      framing = head.framing;
      // Node reads them, and writes nothing there.
      response.writeHead(head.status, head.reason, fieldsFor(head) as string[]);
      if (!hasMore && framing !== "none" && framing !== 0) response.flushHeaders();
    },
    onContent(content, release) {
      received += content.length;
      if (received === framing && received === content.length && received <= smallBytes) {
        // All of it, in a buffer that is not ours to keep.
        last = content.toString("latin1");
        release?.();
        return true;
      }
      const takesMore = release === undefined ? response.write(Buffer.from(content)) : writeLent(content, release);
      if (!takesMore && !isListeningForDrain) {
        isListeningForDrain = true;
        response.on("drain", onMore);
      }
      return takesMore;
    },
    onEnd(trailers) {
      if (trailers.length > 0) response.addTrailers(pairsOf(trailers.filter(isTrailer(trailers))));
      if (last === undefined) response.end();
      else response.end(last, "latin1");
      isOver = true;
      if (!request.complete) cutOff();
    },
    onFailure(failure) {
      if (isOver) return;
      isOver = true;
      if (response.headersSent) {
        // An answer that was cut must not look like a whole one.
        onCut("provider");
        breakOff();
      } else {
        onFailure(failure);
      }
    },
    onDrain() {
      request.resume();
    },
  };

  function writeLent(content: Buffer, release: () => void): boolean {
    const giveBack = () => {
      lent.delete(giveBack);
      release();
    };
    lent.add(giveBack);
    return response.write(content, giveBack);
  }

  function breakOff(): void {
    const { socket } = response;
    // To HTTP/1.0 the end of the connection is the end of the answer: only a reset says that it is not.
    if (request.httpVersion === "1.0" && socket !== null && !(socket instanceof TLSSocket)) socket.resetAndDestroy();
    else response.destroy();
  }

  /** The provider has answered before it had all of the request: the rest is for nobody. */
  function cutOff(): void {
    request.resume();
    const cut = setTimeout(() => request.socket.destroy(), cutAfterMs);
    request.socket.once("close", () => clearTimeout(cut));
  }

  return {
    receiver,
    sendBody(exchange, fieldsOf) {
      request.on("data", (bytes: Buffer) => {
        if (!isOver && !exchange.write(bytes)) request.pause();
      });
      request.on("end", () => {
        if (!isOver) exchange.end(fieldsOf(request.rawTrailers.filter(isTrailer(request.rawTrailers))));
      });
    },
  };
}

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
  "proxy-authorization",
  "set-cookie",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const isTrailer = (trailers: readonly string[]) => (_: string, i: number) =>
  !notInTrailers.has(lowerCase(trailers[i - (i % 2)] ?? ""));

function pairsOf(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i] ?? "", flat[2 * i + 1] ?? ""]);
}
