import { once } from "node:events";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, createClient, type Interceptor } from "@connectrpc/connect";
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import { expect, it } from "vitest";
import {
  BatchImportConnectionsRequestSchema,
  type ConnectionImport,
  ConnectionImportSchema,
  ConnectionService,
  type StreamImportConnectionsResponse,
  TagSetSchema,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey, keyedConnection, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { type Running, serveInProcess } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();

const item = (id: string, more: { readonly integration?: string; readonly round?: number } = {}): ConnectionImport =>
  create(ConnectionImportSchema, {
    environment: "dev",
    integration: more.integration ?? "keyed",
    id,
    credentials: { kind: { case: "apiKey", value: { apiKey: `key-of-${id}-${more.round ?? 0}` } } },
    metadata: { round: more.round ?? 0, of: id },
    tags: { tags: { bulk: "yes" } },
  });

async function* requests(items: readonly ConnectionImport[]) {
  for (const connection of items) yield { connection };
}

/** Imports all items by one stream, and collects their outcomes. */
async function importAll(items: readonly ConnectionImport[]): Promise<StreamImportConnectionsResponse[]> {
  const results: StreamImportConnectionsResponse[] = [];
  for await (const result of running().client(ConnectionService).streamImportConnections(requests(items))) {
    results.push(result);
  }
  return results;
}

/** All connections with a tag, by id. */
async function tagged(data: string): Promise<ReadonlyMap<string, Record<string, unknown>>> {
  const found = new Map<string, Record<string, unknown>>();
  for (let cursor = ""; ; ) {
    const answer = await fetch(`${data}/connections?tags[bulk]=yes&limit=2000${cursor}`, {
      headers: { authorization: `Bearer ${secretKey}` },
    });
    const body = (await answer.json()) as { connections: Record<string, unknown>[]; next_cursor?: string };
    for (const one of body.connections) found.set(String(one["connection_id"]), one);
    if (body.next_cursor === undefined) return found;
    cursor = `&cursor=${body.next_cursor}`;
  }
}

it("I01 imports all of 10,000 items but a wrong one, and names it", async () => {
  const items = Array.from({ length: 10_000 }, (_, i) =>
    i === 4_999 ? item("../wrong") : item(`many-${String(i).padStart(5, "0")}`),
  );
  const results = await importAll(items);
  expect(results.map(({ index }) => Number(index))).toEqual(items.map((_, i) => i));
  const failed = results.filter(({ result }) => result?.problem !== undefined);
  expect(failed.map(({ index, result }) => [Number(index), result?.problem?.code])).toEqual([[4_999, "invalid_body"]]);
  expect(results.filter(({ result }) => result?.created === true)).toHaveLength(9_999);
  const stored = await tagged(running().data);
  expect(stored.size).toBe(9_999);
  expect(new Set([...stored.values()].map(({ id }) => id)).size).toBe(9_999);
});

it("I01 a wrong item does not affect the others", async () => {
  const wrong = [
    create(ConnectionImportSchema, { environment: "dev", integration: "keyed", id: "no-credentials" }),
    item("unknown", { integration: "nowhere" }),
    item("nul-in-its-integration", { integration: "key\0ed" }),
    item("nul\0in-its-id"),
    item("x".repeat(256)),
    create(ConnectionImportSchema, { ...item("other"), environment: "nowhere" }),
    create(ConnectionImportSchema, { ...item("tags"), tags: create(TagSetSchema, { tags: { "1": "" } }) }),
  ];
  const results = await importAll(wrong.flatMap((one, i) => [one, item(`good-${i}`)]));
  const outcomes = results.map(({ result }) => result?.problem?.code ?? "imported");
  expect(outcomes).toEqual(
    [
      "invalid_body",
      "unknown_provider_config",
      // Invalid and of an unknown integration: either problem may be reported.
      expect.stringMatching(/^(invalid_body|unknown_provider_config)$/),
      "invalid_body",
      "invalid_body",
      "unknown_environment",
      "invalid_body",
    ].flatMap((code) => [code, "imported"]),
  );
});

it("I02 applies the last of two items with one id, and reports both", async () => {
  await running().rest("POST", "/connections", {
    body: keyedConnection("there-already", { metadata: { kept: true } }),
  });
  const results = await importAll([
    item("twice", { round: 1 }),
    item("there-already", { round: 1 }),
    item("twice", { round: 2 }),
    item("once"),
  ]);
  expect(results.map(({ result }) => [result?.ref?.id, result?.created, result?.problem])).toEqual([
    ["twice", true, undefined],
    ["there-already", false, undefined],
    ["twice", false, undefined],
    ["once", true, undefined],
  ]);
  const get = async (id: string) => (await running().rest("GET", `/connections/${id}?provider_config_key=keyed`)).body;
  expect(await get("twice")).toMatchObject({ metadata: { round: 2 }, credentials: { apiKey: "key-of-twice-2" } });
  expect(await get("there-already")).toMatchObject({ metadata: { round: 1 }, tags: { bulk: "yes" } });
  expect((await running().rest("GET", "/connections?connectionId=twice")).body.connections).toHaveLength(1);
});

it("I02 applies the last of two items with one id, also when they are in batches that overlap", async () => {
  const items = Array.from({ length: 1_800 }, (_, i) => item(`again-${i % 450}`, { round: Math.floor(i / 450) + 1 }));
  const results = await importAll(items);
  expect(results.map(({ index, result }) => [index, result?.ref?.id, result?.created])).toEqual(
    items.map(({ id }, i) => [BigInt(i), id, i < 450]),
  );
  const stored = await tagged(running().data);
  const rounds = [...stored].filter(([id]) => id.startsWith("again-")).map(([, { metadata }]) => metadata);
  expect(rounds).toHaveLength(450);
  expect(new Set(rounds.map((metadata) => (metadata as { round: number }).round))).toEqual(new Set([4]));
});

const withKey: Interceptor = (next) => (request) => {
  request.header.set("authorization", `Bearer ${adminKey}`);
  return next(request);
};

const gzip = { sendCompression: compressionGzip, acceptCompression: [compressionGzip], compressMinBytes: 1 };

it("takes streams and batches in each protocol and encoding, with the same results", async () => {
  const base = { baseUrl: running().control, httpVersion: "2" as const, interceptors: [withKey] };
  const transports = {
    grpc: createGrpcTransport(base),
    gzip: createGrpcTransport({ ...base, ...gzip }),
    web: createGrpcWebTransport(base),
    connect: createConnectTransport({ ...base, useBinaryFormat: true }),
    "connect-gzip": createConnectTransport({ ...base, ...gzip, useBinaryFormat: true }),
    json: createConnectTransport({ ...base, useBinaryFormat: false }),
  };
  for (const [name, transport] of Object.entries(transports)) {
    const large = item(`${name}-large`);
    large.metadata = { text: "é".repeat(20_000) };
    const items = [item(`${name}-first`), create(ConnectionImportSchema), item("../x"), large, item(`${name}-last`)];
    const results: StreamImportConnectionsResponse[] = [];
    for await (const one of createClient(ConnectionService, transport).streamImportConnections(requests(items))) {
      results.push(one);
    }
    expect(
      results.map(({ index, result }) => [index, result?.ref?.id, result?.problem?.code ?? result?.created]),
    ).toEqual([
      [0n, `${name}-first`, true],
      [1n, "", "invalid_body"],
      [2n, "../x", "invalid_body"],
      [3n, `${name}-large`, true],
      [4n, `${name}-last`, true],
    ]);
    const batch = createClient(ConnectionService, transport);
    const again = await batch.batchImportConnections({ connections: items });
    expect(again.results.map(({ ref, problem, created }) => [ref?.id, problem?.code ?? created])).toEqual([
      [`${name}-first`, false],
      ["", "invalid_body"],
      ["../x", "invalid_body"],
      [`${name}-large`, false],
      [`${name}-last`, false],
    ]);
    await expect(batch.batchImportConnections({ connections: [] })).rejects.toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: "the request is not valid",
    });
    const stored = await running().rest("GET", `/connections/${name}-large?provider_config_key=keyed`);
    expect(stored.body.metadata).toEqual(large.metadata);
  }
});

it.each<readonly [string, readonly Uint8Array[], Code]>([
  ["is larger than allowed", [Uint8Array.of(0, 0x7f, 0, 0, 0), new Uint8Array(100)], Code.ResourceExhausted],
  ["is not whole at the end", [Uint8Array.of(0, 0, 0, 0, 9, 1, 2)], Code.InvalidArgument],
  ["does not parse", [Uint8Array.of(0, 0, 0, 0, 2, 0x0a, 99)], Code.InvalidArgument],
  ["is compressed in no agreed way", [Uint8Array.of(1, 0, 0, 0, 1, 7)], Code.Internal],
])("ends a stream with an error whose message %s", async (_name, parts, code) => {
  const answer = await grpcAnswer("StreamImportConnections", parts);
  expect({ status: answer["grpc-status"], named: answer["latchkey-error"] !== undefined }).toEqual({
    status: String(code),
    named: true,
  });
});

it("refuses a batch with an item that does not parse, and imports none of it", async () => {
  const whole = toBinary(
    BatchImportConnectionsRequestSchema,
    create(BatchImportConnectionsRequestSchema, {
      connections: [item("before-broken")],
    }),
  );
  const message = Buffer.concat([whole, Uint8Array.of(0x0a, 2, 0x0a, 99)]);
  const answer = await grpcAnswer("BatchImportConnections", [Uint8Array.of(0, 0, 0, 0, message.length), message]);
  expect({ status: answer["grpc-status"], named: answer["latchkey-error"] }).toEqual({
    status: String(Code.InvalidArgument),
    named: "invalid_body",
  });
  expect((await running().rest("GET", "/connections/before-broken?provider_config_key=keyed")).status).toBe(404);
});

/** Sends a body to a method, and returns the head and the trailers of the answer. */
async function grpcAnswer(method: string, parts: readonly Uint8Array[]): Promise<IncomingHttpHeaders> {
  const session = connect(running().control);
  const call = session.request({
    ":method": "POST",
    ":path": `/${ConnectionService.typeName}/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
    authorization: `Bearer ${adminKey}`,
  });
  const found: IncomingHttpHeaders = {};
  call.on("response", (head) => Object.assign(found, head));
  call.on("trailers", (trailers) => Object.assign(found, trailers));
  for (const part of parts) call.write(part);
  call.end();
  call.resume();
  await once(call, "close");
  session.close();
  return found;
}

const post = (connection_id: string, credentials: object) =>
  running().rest("POST", "/connections", {
    body: { provider_config_key: "calendar", connection_id, credentials: { type: "OAUTH2", ...credentials } },
  });
const getToken = (id: string, query = "") =>
  running().rest("GET", `/connections/${id}?provider_config_key=calendar${query}`);

it.each<readonly [string, unknown, string]>([
  ["ISO 8601", "2999-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z"],
  ["ISO 8601 with a zone", "2999-01-01T02:00:00.5+02:00", "2999-01-01T00:00:00.500Z"],
  ["seconds", 32_472_144_000, "2999-01-01T00:00:00.000Z"],
  ["seconds as text", "32472144000", "2999-01-01T00:00:00.000Z"],
  ["milliseconds", 32_472_144_000_000, "2999-01-01T00:00:00.000Z"],
  ["milliseconds as text", "32472144000000", "2999-01-01T00:00:00.000Z"],
])("I04 understands an expiry in %s", async (_name, expires_at, iso) => {
  const { status, body } = await post("expiring", { access_token: "t", expires_at });
  expect({ status, at: body.credentials.expires_at }).toEqual({ status: 201, at: iso });
  expect((await getToken("expiring")).body.credentials).toEqual({
    type: "OAUTH2",
    access_token: "t",
    expires_at: iso,
    raw: {},
  });
});

it.each(["soon", "2999-01-01T00:00:00", "2999-02-30T00:00:00Z", -1, {}, true, "Infinity"])(
  "I04 takes no expiry that is %j",
  async (expires_at) => {
    const { status, body } = await post("x", { access_token: "t", expires_at });
    expect({ status, path: body.error.errors[0].path }).toEqual({ status: 400, path: ["credentials", "expires_at"] });
  },
);

it("I04 stores expired credentials, and reports at their first use that a new authorization is needed", async () => {
  const past = "2020-01-01T00:00:00.000Z";
  const { status, body } = await post("expired", { access_token: "t", expires_at: past });
  expect({ status, at: body.credentials.expires_at }).toEqual({ status: 201, at: past });
  const used = await getToken("expired");
  expect({ status: used.status, code: used.body.error.code }).toEqual({
    status: 424,
    code: "reauthorization_required",
  });
  expect((await getToken("expired", "&credentials=false")).status).toBe(200);
  expect((await running().rest("GET", "/connections?connectionId=expired")).body.connections).toHaveLength(1);

  // Fresh ones, imported over them, are good at once.
  await post("expired", { access_token: "fresh" });
  expect((await getToken("expired")).body.credentials.access_token).toBe("fresh");
});

it("I04 does not return credentials that are due for a refresh, and sends Retry-After", async () => {
  await post("due", { access_token: "t", refresh_token: "r", expires_at: "2020-01-01T00:00:00Z" });
  await post("not-yet", { refresh_token: "r" });
  await post("forced", { access_token: "t", refresh_token: "r" });
  // The integration is known; its provider's credentials are not yet.
  const { status, body } = await getToken("due");
  expect({ status, code: body.error.code }).toEqual({ status: 424, code: "integration_misconfigured" });
  const credentials = { type: "OAUTH2", client_id: "app", client_secret: "secret" };
  expect((await running().rest("PATCH", "/integrations/calendar", { body: { credentials } })).status).toBe(200);
  // The name of the provider leads nowhere.
  for (const [id, query] of [
    ["due", ""],
    ["not-yet", ""],
    ["forced", "&force_refresh=true"],
  ] as const) {
    const { status, headers, body } = await getToken(id, query);
    expect({ id, status, code: body.error.code }).toEqual({ id, status: 503, code: "refresh_unavailable" });
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  }
  expect((await getToken("forced")).body.credentials.access_token).toBe("t");
});

it("I05 reaches the same result after a kill in mid-import and a repeat", async () => {
  const folder = await temporaryFolder();
  const items = Array.from({ length: 4_000 }, (_, i) => item(`c-${String(i).padStart(4, "0")}`, { round: i }));
  const importInto = (server: Running, onResult: (count: number) => void) => {
    const transport = createGrpcTransport({
      baseUrl: server.address("control"),
      interceptors: [withKey],
    });
    return (async () => {
      const done: string[] = [];
      try {
        for await (const { result } of createClient(ConnectionService, transport).streamImportConnections(
          requests(items),
        )) {
          if (result?.problem !== undefined) throw new Error(result.problem.message);
          done.push(result?.ref?.id ?? "");
          onResult(done.length);
        }
        return { done, isWhole: true };
      } catch {
        return { done, isWhole: false };
      }
    })();
  };

  const killed = await serveInProcess({ folder });
  await fetch(`${killed.address("data")}/integrations`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify({ unique_key: "keyed", provider: "example-api-key" }),
  });
  const first = await importInto(killed, (count) => {
    if (count === items.length * 0.3) killed.child.kill("SIGKILL");
  });
  await killed.exited;
  expect(first.isWhole).toBe(false);

  const started = await serveInProcess({ folder });
  const survived = await tagged(started.address("data"));
  // Every acknowledged item exists, and every item is complete or absent.
  for (const id of first.done) expect(survived.has(id)).toBe(true);
  expect(survived.size).toBeLessThan(items.length);
  for (const [id, { metadata }] of survived) expect(metadata).toEqual({ round: Number(id.slice(2)), of: id });

  const second = await importInto(started, () => {});
  expect(second).toEqual({ done: items.map(({ id }) => id), isWhole: true });
  const stored = await tagged(started.address("data"));
  expect([...stored.keys()].sort()).toEqual(items.map(({ id }) => id));
  expect(new Set([...stored.values()].map(({ id }) => id)).size).toBe(items.length);
  for (const [id, { id: number, created }] of survived) expect(stored.get(id)).toMatchObject({ id: number, created });
});
