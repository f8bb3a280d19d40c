import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import grpc from "@grpc/grpc-js";
import { describe, expect, it, onTestFinished } from "vitest";
import { createAuthority, pem } from "../cases/control-plane/certificates.ts";
import {
  type GrpcProvider,
  grpcCaller,
  type Message,
  metadataOf,
  serverCredentials,
  startGrpcProvider,
  statusOf,
} from "../support/peers/grpc-provider.ts";
import { apiKey, startProvider, startProxied } from "../support/peers/provider.ts";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** An unmodified client and an unmodified server of grpc-js, with latchkey between them. */

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

async function between(provider: GrpcProvider, options: Options = {}) {
  const running = await startProxied(provider.port, options);
  const named: Readonly<Record<string, string>> = { ...running.proxyHeaders, "x-caller": "ada" };
  return { ...running, provider, ...grpcCaller(running.data), metadata: metadataOf(named), named };
}

async function overTls(options: Options = {}) {
  const authority = createAuthority(await temporaryFolder(), "authority");
  const own = authority.issue("here", { names: "IP:127.0.0.1" });
  const provider = await startGrpcProvider({ credentials: serverCredentials(own.cert, own.key) });
  const files = { "/ca.pem": pem(authority.cert).toString() };
  return between(provider, { isTls: true, files, env: { LATCHKEY_PROVIDER_CA: "/ca.pem" }, ...options });
}

const ways = [
  ["without TLS", async () => between(await startGrpcProvider())],
  ["with TLS", overTls],
] as const;

describe.each(ways)("to a provider %s", (_way, connect) => {
  it.skipIf(lacks("openssl"))("carries a unary call, with the credentials in place of the caller's key", async () => {
    const { say, metadata, provider } = await connect();
    const { answer, status } = await say({ text: "hello" }, metadata);
    expect(answer).toEqual({ text: "hello" });
    expect(status.code).toBe(grpc.status.OK);
    expect(status.metadata.get("x-trailing")).toEqual(["for ada"]);
    expect(status.metadata.get("x-bytes-bin")).toEqual([Buffer.from([0, 1, 254, 255])]);
    const [seen] = provider.metadata;
    expect(seen?.getMap()).toMatchObject({ "x-api-key": apiKey, "x-caller": "ada", via: "2 latchkey" });
    for (const name of ["authorization", "provider-config-key", "connection-id"]) expect(seen?.get(name)).toEqual([]);
  });

  it.skipIf(lacks("openssl"))("carries streams of a server, of a client, and of both", async () => {
    const { client, metadata } = await connect();
    const repeated = client.repeat({ text: "r", count: 200, bytes: 1_000 }, metadata);
    const heard: Message[] = [];
    const [status] = await Promise.all([statusOf(repeated), drain(repeated, heard)]);
    expect(heard.map(({ count }) => count)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
    expect([status.code, status.metadata.get("x-trailing")]).toEqual([grpc.status.OK, ["for ada"]]);

    const collected = await new Promise<Message | undefined>((resolve, reject) => {
      const call = client.collect(metadata, (error, answer) => (error === null ? resolve(answer) : reject(error)));
      for (let i = 0; i < 200; i += 1) call.write({ text: "y".repeat(1_000) });
      call.end();
    });
    expect(collected).toEqual({ count: 200, bytes: 200_000 });

    const chat = client.chat(metadata);
    const ended = statusOf(chat);
    for (const text of ["one", "two", "three"]) {
      const answered = new Promise((resolve) => chat.once("data", resolve));
      chat.write({ text });
      expect(await answered).toEqual({ text: `you said ${text}` });
    }
    chat.end();
    expect((await ended).code).toBe(grpc.status.OK);
  });
});

async function drain(stream: grpc.ClientReadableStream<Message>, into: Message[]): Promise<void> {
  for await (const message of stream) into.push(message as Message);
}

describe("with a provider", () => {
  const connect = async (options: Options = {}) => between(await startGrpcProvider(), options);

  it("passes its errors on, with their trailers and their text", async () => {
    const { say, metadata, client } = await connect();
    const { error, status } = await say({ text: "fail" }, metadata);
    expect(error?.code).toBe(grpc.status.OUT_OF_RANGE);
    expect(error?.details).toBe("not this: 100 % naïve");
    expect(status.metadata.get("x-trailing")).toEqual(["for ada"]);
    expect(status.metadata.get("latchkey-error")).toEqual([]);
    const chat = client.chat(metadata);
    const ended = statusOf(chat);
    chat.write({ text: "fail" });
    expect(await ended).toMatchObject({ code: grpc.status.ABORTED, details: "as you wish" });
  });

  it("ends a call whose server has answered while its caller still sends", async () => {
    const { client, metadata } = await connect();
    const chat = client.chat(metadata);
    chat.on("data", () => {});
    const ended = statusOf(chat);
    chat.write({ text: "enough" });
    const speaking = setInterval(() => chat.write({ text: "more" }), 5);
    expect((await ended).code).toBe(grpc.status.OK);
    clearInterval(speaking);
  });

  it("forwards a deadline, and cancels expired calls at the provider", async () => {
    const { say, metadata, provider } = await connect();
    const { error } = await say({ text: "never" }, metadata, { deadline: Date.now() + 300 });
    expect(error?.code).toBe(grpc.status.DEADLINE_EXCEEDED);
    await until(() => provider.cancelled.length === 1);
    expect(provider.cancelled).toEqual(["say"]);
  });

  it("cancels at the provider what its caller cancels", async () => {
    const { client, metadata, provider, metric } = await connect();
    const repeating = client.repeat({ text: "r", count: 1_000_000, bytes: 1_000 }, metadata);
    const ended = statusOf(repeating);
    await new Promise((resolve) => repeating.once("data", resolve));
    repeating.cancel();
    expect((await ended).code).toBe(grpc.status.CANCELLED);
    await until(() => provider.cancelled.length === 1);
    const chat = client.chat(metadata);
    const over = statusOf(chat);
    chat.write({ text: "one" });
    await new Promise((resolve) => chat.once("data", resolve));
    chat.cancel();
    expect((await over).code).toBe(grpc.status.CANCELLED);
    await until(() => provider.cancelled.length === 2);
    await until(async () => (await metric("latchkey_proxy_open")) === 0);
  });

  it("reports a provider that disappears within a call, and recovers with it", async () => {
    const { client, metadata, provider, say } = await connect();
    const chat = client.chat(metadata);
    const over = statusOf(chat);
    chat.write({ text: "one" });
    await new Promise((resolve) => chat.once("data", resolve));
    provider.server.forceShutdown();
    const { code, metadata: trailers } = await over;
    // grpc-js resets its streams (CANCEL) before it closes its sessions; either may be seen first.
    expect([grpc.status.CANCELLED, grpc.status.UNAVAILABLE]).toContain(code);
    if (code === grpc.status.UNAVAILABLE) expect(trailers.get("latchkey-error")).toEqual(["provider_closed"]);
    const { error } = await say({ text: "x" }, metadata);
    expect(error?.code).toBe(grpc.status.UNAVAILABLE);
    expect(error?.metadata.get("latchkey-error")).toEqual(["provider_unreachable"]);
  });

  it("has each stream name its own connection and key", async () => {
    const { say, provider, rest, named } = await connect();
    for (const id of ["bob", "cyd"]) {
      const { status } = await rest("POST", "/connections", {
        body: {
          provider_config_key: "here",
          connection_id: id,
          credentials: { type: "API_KEY", apiKey: `the-key-of-${id}` },
        },
      });
      expect(status).toBe(201);
    }
    const ids = ["ada", "bob", "cyd", "bob", "ada"];
    await Promise.all(
      ids.map(async (id) => {
        const { answer } = await say({ text: id }, metadataOf({ ...named, "connection-id": id, "x-caller": id }));
        expect(answer).toEqual({ text: id });
      }),
    );
    for (const seen of provider.metadata) {
      expect(seen.get("x-api-key")).toEqual([`the-key-of-${seen.get("x-caller")[0]}`]);
    }
    const { authorization, ...others } = named;
    const { error } = await say({ text: "x" }, metadataOf({ ...others, "latchkey-key": "lk_none" }));
    expect(authorization).toBe(`Bearer ${secretKey}`);
    expect(error?.code).toBe(grpc.status.UNAUTHENTICATED);
    expect((await say({ text: "y" }, metadataOf({ ...others, "latchkey-key": secretKey }))).answer).toEqual({
      text: "y",
    });
  });

  it.each([
    ["no key", { authorization: "" }, grpc.status.UNAUTHENTICATED, "missing_auth_header"],
    ["a connection that is none", { "connection-id": "zed" }, grpc.status.NOT_FOUND, "unknown_connection"],
    ["no connection", { "connection-id": "" }, grpc.status.INVALID_ARGUMENT, "invalid_headers"],
    ["a host of its own", { "base-url-override": "https://a.test" }, grpc.status.PERMISSION_DENIED, "host_not_allowed"],
  ])("reports what is wrong with a call with %s as a gRPC status", async (_what, wrong, code, reason) => {
    const { say, named, provider } = await connect();
    const fields = Object.fromEntries(Object.entries({ ...named, ...wrong }).filter(([, value]) => value !== ""));
    const { error } = await say({ text: "x" }, metadataOf(fields));
    expect(error?.code).toBe(code);
    expect(error?.metadata.get("latchkey-error")).toEqual([reason]);
    expect(error?.details.length).toBeGreaterThan(10);
    expect(provider.metadata).toEqual([]);
  });

  it("forwards calls to an alias, without headers", async () => {
    const { own, data, ...running } = await aliased();
    for (const caller of [own, grpcCaller(data, undefined, { "grpc.default_authority": "here-ada.localhost" })]) {
      const { answer } = await caller.say({ text: "hello" }, metadataOf({ authorization: `Bearer ${secretKey}` }));
      expect(answer).toEqual({ text: "hello" });
    }
    expect(running.provider.metadata.map((seen) => seen.get("x-api-key"))).toEqual([[apiKey], [apiKey]]);
  });

  async function aliased() {
    const alias = "{ name: here-ada, environment: dev, integration: here, connection: ada, listen: '127.0.0.1:0' }";
    const files = { "/config": `aliases: [${alias}]` };
    const provider = await startGrpcProvider();
    const allowed = `http://127.0.0.1:${provider.port}`;
    const env = { LATCHKEY_CONFIG: "/config", LATCHKEY_ALLOW_PRIVATE: allowed };
    const running = await between(provider, { files, env });
    return { ...running, own: grpcCaller(running.sidecar.aliases["here-ada"] ?? "") };
  }
});

it("reports a provider that speaks only HTTP/1.1", async () => {
  const provider = await startProvider();
  const { data, proxyHeaders } = await startProxied(provider.port);
  const { error } = await grpcCaller(data).say({ text: "x" }, metadataOf(proxyHeaders));
  expect(error?.code).toBe(grpc.status.FAILED_PRECONDITION);
  expect(error?.metadata.get("latchkey-error")).toEqual(["http2_required"]);
});

it("answers UNAVAILABLE when the provider's host disappears within a call", async () => {
  const provider = await startGrpcProvider();
  // Between the two, so that it can be pulled out: no goodbye, no reset.
  const sockets = new Set<Socket>();
  const wire = createServer((near) => {
    const far = connect(provider.port, "127.0.0.1");
    for (const socket of [near, far]) sockets.add(socket.on("error", () => {}));
    near.pipe(far).pipe(near);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void wire.close());
  await once(wire, "listening");
  const { data, proxyHeaders } = await startProxied((wire.address() as AddressInfo).port);
  const chat = grpcCaller(data).client.chat(metadataOf(proxyHeaders));
  const over = statusOf(chat);
  chat.write({ text: "one" });
  await new Promise((resolve) => chat.once("data", resolve));
  for (const socket of sockets) socket.resetAndDestroy();
  const { code, metadata } = await over;
  expect(code).toBe(grpc.status.UNAVAILABLE);
  expect(metadata.get("latchkey-error")).toEqual(["provider_closed"]);
});

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(10);
}
