import { once } from "node:events";
import { readdirSync } from "node:fs";
import http2 from "node:http2";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { onTestFinished } from "vitest";
import { adminKey } from "../../support/sidecar/harness.ts";

/** Callers without latchkey's own code: they use the proto files, a socket, and the protocols' documents. */

const protos = fileURLToPath(new URL("../../../proto", import.meta.url));
const definition = loadSync(
  [
    ...readdirSync(`${protos}/latchkey/v1`).map((file) => `latchkey/v1/${file}`),
    "google/rpc/error_details.proto",
    "grpc/health/v1/health.proto",
    "grpc/reflection/v1/reflection.proto",
    "grpc/reflection/v1alpha/reflection.proto",
  ],
  { includeDirs: [protos, `${protos}/vendor`], keepCase: true, longs: String, enums: String, oneofs: true },
);

// biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of a message.
export type Plain = Record<string, any>;

interface CallOptions {
  readonly key?: string | undefined;
  readonly deadlineMs?: number;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** An unmodified grpc-js client. Methods are named as in `ConnectionService/GetConnection`. */
export interface ForeignClient {
  readonly channel: grpc.Client;
  unary(method: string, message: Plain, options?: CallOptions): Promise<Plain>;
  serverStream(method: string, message: Plain, options?: CallOptions): grpc.ClientReadableStream<Plain>;
  bidi(method: string, options?: CallOptions): grpc.ClientDuplexStream<Plain, Plain>;
}

export function foreignClient(address: string, credentials = grpc.credentials.createInsecure()): ForeignClient {
  const channel = new grpc.Client(address.replace(/^https?:\/\//, ""), credentials);
  onTestFinished(() => channel.close());
  return {
    channel,
    unary: (method, message, options) =>
      new Promise((resolve, reject) => {
        const { path, requestSerialize, responseDeserialize } = methodOf(method);
        channel.makeUnaryRequest(
          path,
          requestSerialize,
          responseDeserialize,
          message,
          metadataOf(options),
          deadlineOf(options),
          (error, answer) => (error === null ? resolve(answer ?? {}) : reject(error)),
        );
      }),
    serverStream(method, message, options) {
      const { path, requestSerialize, responseDeserialize } = methodOf(method);
      return channel.makeServerStreamRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        metadataOf(options),
        deadlineOf(options),
      );
    },
    bidi(method, options) {
      const { path, requestSerialize, responseDeserialize } = methodOf(method);
      return channel.makeBidiStreamRequest(
        path,
        requestSerialize,
        responseDeserialize,
        metadataOf(options),
        deadlineOf(options),
      );
    },
  };
}

function methodOf(name: string): grpc.MethodDefinition<Plain, Plain> {
  const [service = "", method = ""] = name.split("/");
  const found = definition[service.includes(".") ? service : `latchkey.v1.${service}`];
  const methods = found as unknown as Readonly<Record<string, grpc.MethodDefinition<Plain, Plain>>> | undefined;
  const one = methods?.[method];
  if (one === undefined) throw new Error(`the proto files have no ${name}`);
  return one;
}

function metadataOf({ key = adminKey, metadata = {} }: CallOptions = {}): grpc.Metadata {
  const made = new grpc.Metadata();
  if (key !== "") made.set("authorization", `Bearer ${key}`);
  for (const [name, value] of Object.entries(metadata)) made.set(name, value);
  return made;
}

const deadlineOf = ({ deadlineMs }: CallOptions = {}): grpc.CallOptions =>
  deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };

/** The final status of a stream, however it ended. */
export const endOf = (stream: grpc.ClientReadableStream<Plain>): Promise<grpc.StatusObject> =>
  new Promise((resolve) => {
    // The status event reports the same error.
    stream.on("error", () => {});
    stream.once("status", resolve);
  });

/** Bytes of a message by its name in the proto files. */
export function encode(type: string, message: Plain): Buffer {
  return messageType(type).serialize(message);
}

export function decode(type: string, bytes: Uint8Array): Plain {
  return messageType(type).deserialize(Buffer.from(bytes));
}

function messageType(type: string) {
  const found = definition[type];
  if (found === undefined || !("serialize" in found)) throw new Error(`the proto files have no message ${type}`);
  return found as unknown as { serialize(message: object): Buffer; deserialize(bytes: Buffer): Plain };
}

/** A message as gRPC frames it: a flag, its length, its bytes. */
export function envelope(bytes: Uint8Array, { flag = 0, length = bytes.length } = {}): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag, 0);
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, bytes]);
}

export interface RawAnswer {
  readonly status: number;
  readonly headers: http2.IncomingHttpHeaders;
  readonly trailers: http2.IncomingHttpHeaders;
  /** `grpc-status`, from the headers or the trailers. */
  readonly code: number | undefined;
  readonly message: string;
  readonly body: Buffer;
  /** How the stream ended; 0 for a regular end. */
  readonly reset: number;
}

interface RawCall {
  readonly headers?: http2.OutgoingHttpHeaders;
  readonly body?: Uint8Array;
  readonly key?: string;
}

/** A gRPC call, byte for byte, on its own session. */
export async function rawGrpc(address: string, path: string, options: RawCall = {}): Promise<RawAnswer> {
  const session = http2.connect(address);
  await once(session, "connect");
  try {
    return await rawCall(session, path, options);
  } finally {
    session.destroy();
  }
}

export async function rawCall(
  session: http2.ClientHttp2Session,
  path: string,
  { headers = {}, body = envelope(new Uint8Array()), key = adminKey }: RawCall = {},
): Promise<RawAnswer> {
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
    ...headers,
  });
  const seen: { headers: http2.IncomingHttpHeaders; trailers: http2.IncomingHttpHeaders } = {
    headers: {},
    trailers: {},
  };
  const chunks: Buffer[] = [];
  stream.on("response", (found) => Object.assign(seen.headers, found));
  stream.on("trailers", (found) => Object.assign(seen.trailers, found));
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  // The reset code tells what failed.
  stream.on("error", () => {});
  const closed = new Promise<void>((resolve) => stream.once("close", resolve));
  stream.end(body);
  await closed;
  const status = seen.trailers["grpc-status"] ?? seen.headers["grpc-status"];
  return {
    ...seen,
    status: Number(seen.headers[":status"]),
    code: status === undefined ? undefined : Number(status),
    message: decodeURIComponent(String(seen.trailers["grpc-message"] ?? seen.headers["grpc-message"] ?? "")),
    body: Buffer.concat(chunks),
    reset: stream.rstCode ?? 0,
  };
}

interface ConnectAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Plain;
}

/** A Connect call: one POST of JSON. A text is sent unchanged. */
export async function post(
  address: string,
  method: string,
  body: unknown,
  { key = adminKey, headers = {} }: { readonly key?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<ConnectAnswer> {
  const [service = "", name = ""] = method.split("/");
  const answer = await fetch(`${address}/${service.includes(".") ? service : `latchkey.v1.${service}`}/${name}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text === "" ? {} : JSON.parse(text) };
}

/** The `google.rpc.ErrorInfo` and `BadRequest` details of a Connect error. */
export function detailsIn({ details = [] }: Plain): {
  readonly reason: string | undefined;
  readonly metadata: Plain;
  readonly fields: readonly string[];
} {
  const all = details as readonly { readonly type: string; readonly debug: Plain }[];
  const find = (type: string) => all.find((one) => one.type === type)?.debug ?? {};
  const { reason, metadata = {} } = find("google.rpc.ErrorInfo");
  const { fieldViolations = [] } = find("google.rpc.BadRequest");
  return { reason, metadata, fields: (fieldViolations as readonly Plain[]).map(({ field }) => String(field)) };
}
