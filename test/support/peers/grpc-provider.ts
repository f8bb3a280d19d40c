import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import { onTestFinished } from "vitest";

/** A provider that speaks gRPC, made with grpc-js: one method of each kind, messages of JSON. */

export interface Message {
  readonly text?: string;
  readonly count?: number;
  readonly bytes?: number;
}

const serialize = (message: Message): Buffer => Buffer.from(JSON.stringify(message));
const deserialize = (bytes: Buffer): Message => JSON.parse(bytes.toString());
const method = (path: string, requestStream: boolean, responseStream: boolean) => ({
  path,
  requestStream,
  responseStream,
  requestSerialize: serialize,
  requestDeserialize: deserialize,
  responseSerialize: serialize,
  responseDeserialize: deserialize,
});

export const definition = {
  say: method("/example.Echo/Say", false, false),
  repeat: method("/example.Echo/Repeat", false, true),
  collect: method("/example.Echo/Collect", true, false),
  chat: method("/example.Echo/Chat", true, true),
};

export interface GrpcProvider {
  readonly port: number;
  readonly server: grpc.Server;
  /** The metadata of each call. */
  readonly metadata: grpc.Metadata[];
  /** Names of calls that their callers gave up. */
  readonly cancelled: string[];
  /** The number of stream messages it has written. */
  written(): number;
  /** The number of stream messages it has read. */
  read(): number;
}

export const serverCredentials = (cert: string, key: string): grpc.ServerCredentials =>
  grpc.ServerCredentials.createSsl(null, [{ cert_chain: readFileSync(cert), private_key: readFileSync(key) }]);

interface ProviderOptions {
  readonly credentials?: grpc.ServerCredentials;
  readonly options?: grpc.ServerOptions;
}

export async function startGrpcProvider({
  credentials = grpc.ServerCredentials.createInsecure(),
  options = {},
}: ProviderOptions = {}): Promise<GrpcProvider> {
  const server = new grpc.Server(options);
  const metadata: grpc.Metadata[] = [];
  const cancelled: string[] = [];
  let written = 0;
  let read = 0;
  const note = (
    name: string,
    call: grpc.ServerUnaryCall<Message, Message> | grpc.ServerDuplexStream<Message, Message>,
  ) => {
    metadata.push(call.metadata);
    call.on("cancelled", () => cancelled.push(name));
  };
  const trailersOf = (call: { readonly metadata: grpc.Metadata }) => {
    const trailers = new grpc.Metadata();
    trailers.set("x-trailing", `for ${call.metadata.get("x-caller")[0] ?? "nobody"}`);
    trailers.set("x-bytes-bin", Buffer.from([0, 1, 254, 255]));
    return trailers;
  };
  server.addService(definition, {
    say(call: grpc.ServerUnaryCall<Message, Message>, answer: grpc.sendUnaryData<Message>) {
      note("say", call as never);
      const { text = "", bytes = 0 } = call.request;
      if (text === "never") return;
      if (text === "fail") {
        answer({ code: grpc.status.OUT_OF_RANGE, details: "not this: 100 % naïve", metadata: trailersOf(call) });
        return;
      }
      answer(null, { text: text + "x".repeat(bytes) }, trailersOf(call));
    },
    repeat(call: grpc.ServerWritableStream<Message, Message>) {
      note("repeat", call as never);
      const { text = "", count = 1, bytes = 0 } = call.request;
      const filler = "x".repeat(bytes);
      let left = count;
      const more = () => {
        while (left > 0 && !call.cancelled) {
          left -= 1;
          written += 1;
          if (!call.write({ text: text + filler, count: count - left })) {
            call.once("drain", more);
            return;
          }
        }
        call.end(trailersOf(call));
      };
      more();
    },
    collect(call: grpc.ServerReadableStream<Message, Message>, answer: grpc.sendUnaryData<Message>) {
      note("collect", call as never);
      let bytes = 0;
      let count = 0;
      let isSlow = false;
      call.on("data", ({ text = "" }: Message) => {
        read += 1;
        count += 1;
        bytes += text.length;
        isSlow ||= text.startsWith("slow");
        if (isSlow) {
          call.pause();
          setTimeout(() => call.resume(), 20);
        }
      });
      call.on("end", () => answer(null, { count, bytes }, trailersOf(call)));
    },
    chat(call: grpc.ServerDuplexStream<Message, Message>) {
      note("chat", call);
      call.on("data", (message: Message) => {
        read += 1;
        if (message.text === "enough") call.end(trailersOf(call));
        else if (message.text === "fail") call.emit("error", { code: grpc.status.ABORTED, details: "as you wish" });
        else call.write({ text: `you said ${message.text}` });
      });
      call.on("end", () => call.end(trailersOf(call)));
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", credentials, (error, bound) => (error === null ? resolve(bound) : reject(error))),
  );
  onTestFinished(() => server.forceShutdown());
  return { port, server, metadata, cancelled, written: () => written, read: () => read };
}

type Client = grpc.Client & {
  say(
    message: Message,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    done: (error: grpc.ServiceError | null, answer?: Message) => void,
  ): grpc.ClientUnaryCall;
  repeat(message: Message, metadata: grpc.Metadata): grpc.ClientReadableStream<Message>;
  collect(
    metadata: grpc.Metadata,
    done: (error: grpc.ServiceError | null, answer?: Message) => void,
  ): grpc.ClientWritableStream<Message>;
  chat(metadata: grpc.Metadata): grpc.ClientDuplexStream<Message, Message>;
};

export interface Said {
  readonly answer: Message | undefined;
  readonly error: grpc.ServiceError | null;
  readonly status: grpc.StatusObject;
}

export interface GrpcCaller {
  readonly client: Client;
  say(message: Message, metadata: grpc.Metadata, options?: grpc.CallOptions): Promise<Said>;
}

/** An unmodified grpc-js client for that provider, at any address. */
export function grpcCaller(
  address: string,
  credentials = grpc.credentials.createInsecure(),
  options: grpc.ClientOptions = {},
): GrpcCaller {
  const Service = grpc.makeGenericClientConstructor(definition, "example.Echo");
  const client = new Service(address.replace(/^https?:\/\//, ""), credentials, options) as unknown as Client;
  onTestFinished(() => client.close());
  return {
    client,
    say: (message, metadata, callOptions = {}) =>
      new Promise((resolve) => {
        let answered: Pick<Said, "answer" | "error"> | undefined;
        const call = client.say(message, metadata, callOptions, (error, answer) => {
          answered = { error, answer };
        });
        call.on("status", (status) =>
          setImmediate(() => resolve({ answer: undefined, error: null, ...answered, status })),
        );
      }),
  };
}

export function metadataOf(fields: Readonly<Record<string, string>>): grpc.Metadata {
  const made = new grpc.Metadata();
  for (const [name, value] of Object.entries(fields)) made.set(name, value);
  return made;
}

export const statusOf = (call: grpc.ClientReadableStream<Message> | grpc.ClientWritableStream<Message>) =>
  new Promise<grpc.StatusObject>((resolve) => {
    // The status event reports the same error.
    call.on("error", () => {});
    call.once("status", resolve);
  });
