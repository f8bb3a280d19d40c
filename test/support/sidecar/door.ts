import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { afterAll, beforeAll } from "vitest";
import type { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ProviderSchema, ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createIntegrations, type HarnessOptions, startUnmanaged, type TestSidecar } from "./harness.ts";

/** One sidecar with sample records for all tests of a file; the tests use different ids. */
export function sidecarOfFile(options: HarnessOptions = {}): () => TestSidecar {
  let running: TestSidecar | undefined;
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-test-"));
    running = await startUnmanaged({ ...options, folder });
    await createIntegrations(running);
  });
  afterAll(async () => {
    await running?.stop();
    await rm(folder, { recursive: true, force: true });
  });
  return () => {
    if (running === undefined) throw new Error("the sidecar of this file has not started");
    return running;
  };
}

/** The secret of a new key of the environment `dev` that may do this and no more. */
export async function keyWith({ client }: TestSidecar, ...scopes: readonly Scope[]): Promise<string> {
  const { secret } = await client(EnvironmentService).createKey({ environment: "dev", scopes: [...scopes] });
  return secret;
}

/** Adds a provider of the customer's own, and an integration of the same name. */
export async function setUp(
  { client, rest }: TestSidecar,
  provider: MessageInitShape<typeof ProviderSchema> & { readonly name: string },
): Promise<void> {
  await client(ProviderService).createProvider({ provider: create(ProviderSchema, provider) });
  const { status, body } = await rest("POST", "/integrations", {
    body: { unique_key: provider.name, provider: provider.name },
  });
  if (status !== 200) throw new Error(`the integration was not created: ${JSON.stringify(body)}`);
}

/** A raw connection to a listener. */
export interface Wire {
  readonly socket: Socket;
  send(bytes: string | Uint8Array): void;
  /** Resolves with the received text, once it is enough. */
  until(isEnough: (text: string) => boolean): Promise<string>;
  /** Everything received until the listener closed the connection, in any way. */
  readonly ended: Promise<string>;
}

export async function openWire(address: string): Promise<Wire> {
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  let text = "";
  const ended = new Promise<string>((resolve) => socket.once("close", () => resolve(text)));
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    text += chunk;
  });
  // A listener may reset a connection whose input it rejects.
  socket.on("error", () => {});
  await once(socket, "connect");
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    ended,
    until: (isEnough) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (isEnough(text)) resolve(text);
          else if (socket.closed) reject(new Error(`the connection ended with ${JSON.stringify(text)}`));
          else return;
          socket.off("data", look).off("close", look);
        };
        socket.on("data", look).on("close", look);
        look();
      }),
  };
}

/** Sends one request byte for byte and returns its response, which must have a body. */
export async function say(address: string, bytes: string | Uint8Array): Promise<string> {
  const wire = await openWire(address);
  wire.send(bytes);
  const answer = await wire.until(isWhole);
  wire.socket.destroy();
  return answer;
}

/** Whether a response has its whole body. */
function isWhole(answer: string): boolean {
  const [top = "", body = ""] = answer.split("\r\n\r\n");
  const length = /^content-length: (\d+)/im.exec(top)?.[1];
  return length !== undefined && body.length >= Number(length);
}

/** A head of these lines, with the empty one that ends it. */
export const head = (...lines: readonly string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
/** The number of responses in a received text. */
export const answersIn = (text: string): number => text.split(/HTTP\/1\.1 \d{3} /).length - 1;
