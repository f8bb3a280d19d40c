import type { ServerResponse } from "node:http";
import http2 from "node:http2";
import { Code, ConnectError, createContextKey } from "@connectrpc/connect";

/** Node's responses over HTTP/1.1 and HTTP/2. */
export type NodeResponse = ServerResponse | http2.Http2ServerResponse;

/** The client that reads a response, as its producer sees it. */
export interface SlowReader {
  /** More data is waiting than is kept: the client is disconnected unless it reads on within a moment. */
  hurry(): void;
}

export interface WatchedSlowReader extends SlowReader {
  /** Resolves when more may be written, or with the error: the client has left, or was disconnected for not reading. */
  untilDrained(): Promise<ConnectError | undefined>;
  /** Resolves when the response is fully sent, or never will be. */
  untilClosed(): Promise<void>;
}

export const readerKey = createContextKey<SlowReader | undefined>(undefined, { description: "who reads the answer" });

const hurryMs = 1_000;

/**
 * Waits for the client to read, at most `stallMs` per piece: data kept for a client that does not read is wasted. Over
 * HTTP/2, the stream ends with ENHANCE_YOUR_CALM, which gRPC maps to RESOURCE_EXHAUSTED; over HTTP/1.1, the connection
 * ends.
 */
export function watchReader(response: NodeResponse, { stallMs }: { readonly stallMs: number }): WatchedSlowReader {
  let closed = false;
  let sentAway = false;
  let hurried = false;
  let rearm = () => {};
  response.once("close", () => {
    closed = true;
  });

  function sendAway(): void {
    sentAway = true;
    if (!("stream" in response)) {
      response.destroy();
      return;
    }
    const { stream } = response;
    const { session } = stream;
    stream.close(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // A client that merely fell behind may have other calls on the session; a client that does not read at all loses
    // the session.
    if (!hurried) session?.close();
  }

  function waitFor(event: "drain" | "close"): Promise<void> {
    if (closed) return Promise.resolve();
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout;
      const settle = () => {
        clearTimeout(timer);
        rearm = () => {};
        response.off(event, settle).off("close", settle);
        resolve();
      };
      rearm = () => {
        clearTimeout(timer);
        timer = setTimeout(sendAway, hurried ? hurryMs : stallMs);
      };
      response.once(event, settle).once("close", settle);
      rearm();
    });
  }

  return {
    hurry() {
      hurried = true;
      rearm();
    },
    async untilDrained() {
      await waitFor("drain");
      if (sentAway) return new ConnectError("the response was not read in time", Code.ResourceExhausted);
      return closed ? new ConnectError("the caller has left", Code.Canceled) : undefined;
    },
    untilClosed: () => waitFor("close"),
  };
}
