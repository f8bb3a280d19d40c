import { once } from "node:events";
import http2, { type ClientHttp2Session, type ClientHttp2Stream, type OutgoingHttpHeaders } from "node:http2";
import { onTestFinished } from "vitest";

/** One request over HTTP/2, and its whole response. */
export interface Streamed {
  readonly status: number;
  readonly headers: http2.IncomingHttpHeaders;
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
  readonly informational: readonly number[];
  readonly body: string;
  readonly trailers: http2.IncomingHttpHeaders;
  /** How the stream ended; 0 for a regular end. */
  readonly code: number;
}

export interface Streaming {
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  readonly trailers?: OutgoingHttpHeaders;
}

export async function openSession(
  address: string,
  options: http2.SecureClientSessionOptions = {},
): Promise<ClientHttp2Session> {
  const session = http2.connect(address, options);
  session.on("error", () => {});
  onTestFinished(() => session.destroy());
  await once(session, "connect");
  return session;
}

export function streamed(
  session: ClientHttp2Session,
  path: string,
  { headers = {}, body, trailers }: Streaming = {},
): Promise<Streamed> {
  const stream = session.request(
    { ":path": path, ":method": body === undefined ? "GET" : "POST", ...headers },
    { endStream: body === undefined, waitForTrailers: trailers !== undefined },
  );
  if (trailers !== undefined) stream.on("wantTrailers", () => stream.sendTrailers(trailers));
  if (body !== undefined) stream.end(body);
  return answerOf(stream);
}

export function answerOf(stream: ClientHttp2Stream): Promise<Streamed> {
  let headers: http2.IncomingHttpHeaders = {};
  let rawHeaders: readonly string[] = [];
  let trailers: http2.IncomingHttpHeaders = {};
  const informational: number[] = [];
  const parts: Buffer[] = [];
  stream.on("headers", ({ ":status": status = 0 }) => informational.push(status));
  stream.on("response", (found: http2.IncomingHttpHeaders, _: number, raw?: readonly string[]) => {
    headers = found;
    rawHeaders = raw ?? [];
  });
  stream.on("trailers", (found: http2.IncomingHttpHeaders) => {
    trailers = found;
  });
  stream.on("data", (part: Buffer) => parts.push(part));
  // The code tells what failed.
  stream.on("error", () => {});
  return new Promise((resolve) =>
    stream.once("close", () =>
      resolve({
        status: Number(headers[":status"] ?? 0),
        headers,
        rawHeaders,
        informational,
        body: Buffer.concat(parts).toString("latin1"),
        trailers,
        code: stream.rstCode ?? 0,
      }),
    ),
  );
}
