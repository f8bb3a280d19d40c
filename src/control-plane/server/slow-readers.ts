import type { ServerResponse } from "node:http";
import http2 from "node:http2";
import { Code, ConnectError, createContextKey } from "@connectrpc/connect";

/** What Node answers with, over HTTP/1.1 and over HTTP/2. */
export type NodeResponse = ServerResponse | http2.Http2ServerResponse;

/** Who reads an answer, as far as the one that makes it cares. */
export interface SlowReader {
  /** More waits for it than is kept: it is sent away unless it reads on within a moment. */
  hurry(): void;
}

export interface WatchedSlowReader extends SlowReader {
  /** Resolves when more may be written, or to why not: the reader has left, or was sent away for reading nothing. */
  untilDrained(): Promise<ConnectError | undefined>;
  /** Resolves when the answer has left for good, or never will. */
  untilClosed(): Promise<void>;
}

export const readerKey = createContextKey<SlowReader | undefined>(undefined, { description: "who reads the answer" });

const hurryMs = 1_000;

/**
 * Waits for the reader of an answer, but for each piece of it no longer than `stallMs`: what is held for one that
 * takes nothing is held in vain. Over HTTP/2 it is told ENHANCE_YOUR_CALM, which gRPC reads as RESOURCE_EXHAUSTED;
 * over HTTP/1.1 the connection ends.
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
    // Who merely fell behind may have other calls to read; who stands still is taken no more of.
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
      if (sentAway) return new ConnectError("the answer was not read", Code.ResourceExhausted);
      return closed ? new ConnectError("the caller has left", Code.Canceled) : undefined;
    },
    untilClosed: () => waitFor("close"),
  };
}
