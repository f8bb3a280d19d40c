import http2 from "node:http2";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type FollowRequest,
  FollowRequestSchema,
  type FollowResponse,
  FollowResponseSchema,
} from "../gen/latchkey/v1/edge_pb.ts";
import { brokerTrouble, closedEarly } from "./broker-trouble.ts";

export type ToBroker = FollowRequest["message"];
export type FromBroker = FollowResponse["message"];

/** Certificates for connections to brokers, in PEM. */
export interface BrokerTls {
  /** Additional authorities; undefined: the system's. */
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** One `EdgeService.Follow` call on a connection of its own. */
export interface FollowStream {
  send(message: ToBroker): void;
  /** Ends the call and its connection. `onEnd` is not called. */
  close(): void;
}

interface FollowStreamOptions {
  /** `http(s)://host:port`. */
  readonly url: string;
  readonly tls: BrokerTls;
  readonly key: string | undefined;
  readonly onMessage: (message: FromBroker) => void;
  /** Called once, unless `close` was called first. */
  readonly onEnd: (reason: string) => void;
}

const path = "/latchkey.v1.EdgeService/Follow";
/** Flags, and the length of the message: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
const prefixBytes = 5;
/** Limits a message of a broker: a provider's description is the largest. */
const maxMessageBytes = 16 * 1024 * 1024;
/** Limits what a broker that does not read leaves in memory. */
const maxUnsentBytes = 16 * 1024 * 1024;

/** Written by hand, since a process with a single call has no use for a client library's memory. */
export function openFollowStream({ url, tls, key, onMessage, onEnd }: FollowStreamOptions): FollowStream {
  const trust = url.startsWith("https:")
    ? { ...(tls.ca !== undefined && { ca: tls.ca }), ...(tls.cert !== undefined && { cert: tls.cert, key: tls.key }) }
    : {};
  let hasAnswer = false;
  const session = http2.connect(url, trust);
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc+proto",
    te: "trailers",
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
  });
  const frames = createFrameReader();
  let isOver = false;
  let reason: string | undefined;

  function end(why: string): void {
    if (isOver) return;
    isOver = true;
    session.destroy();
    onEnd(reason ?? why);
  }

  session.on("error", (error) => end(brokerTrouble(error)));
  session.on("close", () => end(hasAnswer ? "the connection was closed" : closedEarly(url)));
  session.on("goaway", () => session.close());
  // The session's error says more, and comes later.
  stream.on("error", (error) => setImmediate(() => end(brokerTrouble(error))));
  stream.on("close", () => setImmediate(() => end(hasAnswer ? "the stream was closed" : closedEarly(url))));
  stream.on("response", (headers) => {
    hasAnswer = true;
    reason = refusalIn(headers) ?? reason;
    const status = headers[":status"];
    if (reason === undefined && status !== 200) reason = `the answer has the status ${status}`;
  });
  stream.on("trailers", (trailers) => {
    reason = refusalIn(trailers) ?? reason;
  });
  stream.on("end", () => (hasAnswer ? end("the broker ended the stream") : setImmediate(() => end(closedEarly(url)))));
  stream.on("data", (bytes: Buffer) => {
    try {
      for (const message of frames(bytes)) {
        if (isOver) return;
        onMessage(fromBinary(FollowResponseSchema, message).message);
      }
    } catch (error) {
      end(`a message of the broker cannot be read: ${(error as Error).message}`);
    }
  });

  return {
    send(message) {
      if (isOver || stream.destroyed) return;
      stream.write(framed(toBinary(FollowRequestSchema, create(FollowRequestSchema, { message }))));
      if (stream.writableLength > maxUnsentBytes) end("the broker does not read");
    },
    close() {
      isOver = true;
      // The broker sees the end of the call, not an error.
      stream.end();
      session.close();
      setTimeout(() => session.destroy(), farewellMs).unref();
    },
  };
}

/** Time limit for a graceful end. */
const farewellMs = 500;

function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(prefixBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, prefixBytes);
  return frame;
}

/** Returns a function that takes bytes as they arrive, and returns the messages that are complete. */
function createFrameReader(): (bytes: Buffer) => readonly Buffer[] {
  let rest: Buffer[] = [];
  let restBytes = 0;
  let wanted = prefixBytes;
  return (bytes) => {
    rest.push(bytes);
    restBytes += bytes.length;
    if (restBytes < wanted) return [];
    const all = rest.length === 1 ? bytes : Buffer.concat(rest);
    const found: Buffer[] = [];
    let at = 0;
    wanted = prefixBytes;
    while (all.length - at >= prefixBytes) {
      if (all[at] !== 0) throw new Error("it is compressed");
      const length = all.readUInt32BE(at + 1);
      if (length > maxMessageBytes) throw new Error(`it has ${length} bytes`);
      wanted = prefixBytes + length;
      if (all.length - at < wanted) break;
      found.push(all.subarray(at + prefixBytes, at + wanted));
      at += wanted;
      wanted = prefixBytes;
    }
    rest = at === all.length ? [] : [all.subarray(at)];
    restBytes = all.length - at;
    return found;
  };
}

/** Returns the error that a call ended with; undefined if these fields name none. */
function refusalIn(fields: http2.IncomingHttpHeaders): string | undefined {
  const status = fields["grpc-status"];
  if (status === undefined || status === "0") return undefined;
  const { "grpc-message": message, "latchkey-error": code } = fields;
  const text = typeof message === "string" && message !== "" ? decoded(message) : `gRPC status ${status}`;
  return typeof code === "string" ? `${text} (${code})` : text;
}

function decoded(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
