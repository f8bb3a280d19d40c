import http from "node:http";
import http2 from "node:http2";
import { gzipSync } from "node:zlib";
import { getOption, hasOption } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel as Idempotency } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { Scope, scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { head, keyWith, say, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { keyedConnection, secretKey } from "../../support/sidecar/harness.ts";
import {
  detailsIn,
  encode,
  envelope,
  foreignClient,
  type Plain,
  post,
  rawCall,
  rawGrpc,
} from "../control-plane/foreign.ts";
import { flags, frame, grpcHead, literal, openFrames } from "../control-plane/frames.ts";
import { methods, pathOf } from "../control-plane/services.ts";

const running = sidecarOfFile();
const control = () => running().control;

const item = (id: string): Plain => ({
  environment: "dev",
  integration: "keyed",
  id,
  credentials: { apiKey: { apiKey: `key-of-${id}` } },
});
/** The same as the proto files name it. */
const protoItem = (id: string): Plain => ({ ...item(id), credentials: { api_key: { api_key: `key-of-${id}` } } });
const batch = (prefix: string, count: number): Plain => ({
  connections: Array.from({ length: count }, (_, i) => ({
    ...protoItem(`${prefix}-${i}`),
    tags: { tags: { batch: prefix } },
  })),
});
const listPath = "/latchkey.v1.ConnectionService/ListConnections";
const batchPath = "/latchkey.v1.ConnectionService/BatchImportConnections";

async function countOf(filter: Plain): Promise<number> {
  const request = { environment: "dev", filter, pageSize: 2_000 };
  const { body } = await post(control(), "ConnectionService/ListConnections", request);
  return (body["connections"] ?? []).length;
}

// gRPC's numbers.
const deadlineExceeded = 4;
const invalidArgument = 3;
const resourceExhausted = 8;
const permissionDenied = 7;
const unimplemented = 12;
const internal = 13;
const unauthenticated = 16;

it("G01 answers a method that does not exist with unimplemented over gRPC, with 404 over HTTP", async () => {
  const foreign = foreignClient(control());
  for (const path of ["/latchkey.v1.NoService/Get", "/latchkey.v1.ConnectionService/NoMethod"]) {
    const failure = await new Promise<Plain>((resolve) => {
      const pass = (bytes: Buffer) => bytes;
      foreign.channel.makeUnaryRequest(path, pass, pass, Buffer.alloc(0), (error) => resolve(error ?? {}));
    });
    expect(failure["code"]).toBe(unimplemented);
    const answer = await fetch(`${control()}${path}`, { method: "POST" });
    expect(answer.status).toBe(404);
    expect(answer.headers.get("latchkey-error")).toBe("not_found");
  }
});

it.each(["abc", "12345678901", "-1", "1.5", ""])("G02 refuses a Connect-Timeout-Ms of %j", async (timeout) => {
  const { status, body } = await post(
    control(),
    "ConnectionService/ImportConnection",
    { connection: item("g02-refused") },
    { headers: { "connect-timeout-ms": timeout } },
  );
  expect(status).toBe(400);
  expect(body["code"]).toBe("invalid_argument");
  expect(await countOf({ id: "g02-refused" })).toBe(0);
});

it("G02 does nothing for a call without any time left", async () => {
  const { status, body } = await post(
    control(),
    "ConnectionService/ImportConnection",
    { connection: item("g02-late") },
    { headers: { "connect-timeout-ms": "0" } },
  );
  expect(status).toBe(504);
  expect(body["code"]).toBe("deadline_exceeded");
  expect(await countOf({ id: "g02-late" })).toBe(0);
});

it("G03 writes all of a batch or nothing, whenever its deadline passes", async () => {
  const codes: (number | undefined)[] = [];
  for (const deadlineMs of [1, 5, 15, 40, 100]) {
    const prefix = `g03-${deadlineMs}`;
    const body = envelope(encode("latchkey.v1.BatchImportConnectionsRequest", batch(prefix, 1_000)));
    const { code } = await rawGrpc(control(), batchPath, { headers: { "grpc-timeout": `${deadlineMs}m` }, body });
    codes.push(code);
    // The write may or may not have happened, perhaps after the answer; a part of it is never visible.
    for (let look = 0; look < 3; look += 1) expect([0, 1_000]).toContain(await countOf({ tags: { batch: prefix } }));
  }
  expect(codes[0]).toBe(deadlineExceeded);
});

it("G04 refuses a message of 5 MiB, and buffers no more than the limit", async () => {
  const body = envelope(Buffer.alloc(5 * 1024 * 1024));
  const before = process.memoryUsage().rss;
  for (let i = 0; i < 10; i += 1) {
    const { code } = await rawGrpc(control(), listPath, { body });
    expect(code).toBe(resourceExhausted);
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(128 * 1024 * 1024);
  const { status } = await post(
    control(),
    "ConnectionService/ListConnections",
    Buffer.alloc(5 * 1024 * 1024, " "),
  ).catch(
    // The listener may close before everything is sent.
    () => ({ status: 429 }),
  );
  expect(status).toBe(429);
});

it("G04 stops unpacking where the limit is", async () => {
  const packed = gzipSync(Buffer.alloc(128 * 1024 * 1024));
  const before = process.memoryUsage().rss;
  const { code } = await rawGrpc(control(), listPath, {
    headers: { "grpc-encoding": "gzip" },
    body: envelope(packed, { flag: 1 }),
  });
  expect(code).toBe(resourceExhausted);
  expect(process.memoryUsage().rss - before).toBeLessThan(64 * 1024 * 1024);
});

it("G05 refuses an envelope that is cut off", async () => {
  const { code } = await rawGrpc(control(), listPath, { body: envelope(Buffer.alloc(10), { length: 100 }) });
  expect([invalidArgument, internal]).toContain(code);
});

it("G05 does not believe an envelope that claims 4 GiB", async () => {
  const before = process.memoryUsage().arrayBuffers;
  const { code } = await rawGrpc(control(), listPath, { body: envelope(Buffer.alloc(10), { length: 0xffffffff }) });
  expect(code).toBe(resourceExhausted);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024);
});

it("G06 refuses a compressed message when no compression was named", async () => {
  const body = envelope(gzipSync(encode("latchkey.v1.ListConnectionsRequest", { environment: "dev" })), { flag: 1 });
  expect((await rawGrpc(control(), listPath, { body })).code).toBe(internal);
  const { code } = await rawGrpc(control(), listPath, { body, headers: { "grpc-encoding": "gzip" } });
  expect(code).toBe(0);
});

it("G06 names the compressions that it supports", async () => {
  const { code, trailers, headers } = await rawGrpc(control(), listPath, { headers: { "grpc-encoding": "foo" } });
  expect(code).toBe(unimplemented);
  expect({ ...headers, ...trailers }["grpc-accept-encoding"]).toBe("gzip");
});

it.each([
  ["a field that does not exist", "ConnectionService/ListConnections", { environment: "dev", nope: 1 }, "nope"],
  ["one further down", "ConnectionService/ListConnections", { filter: { nope: 1 } }, "nope"],
  [
    "an integer that JSON has rounded",
    "ConnectionService/DeleteConnection",
    '{"ref":{"integration":"keyed","id":"x"},"expectedRevision":9007199254740993}',
    "expected_revision",
  ],
  ["a text where a number belongs", "ConnectionService/ListConnections", { pageSize: "NaN" }, "page_size"],
  ["a number that JSON does not have", "ConnectionService/ListConnections", '{"pageSize":NaN}', "NaN"],
  [
    "an enum value that does not exist",
    "ConnectionService/ListConnections",
    { filter: { states: ["STATE_NO"] } },
    "STATE_NO",
  ],
  ["an instant that is none", "EnvironmentService/CreateKey", { expiresAt: "tomorrow" }, '"expires_at" is not valid'],
])("G07 refuses %s in JSON and names the place", async (_what, method, body, place) => {
  const answer = await post(control(), method, body);
  expect(answer.status).toBe(400);
  expect(answer.body["code"]).toBe("invalid_argument");
  expect([answer.body["message"], ...detailsIn(answer.body).fields].join(" ")).toContain(place);
  expect(answer.headers.get("latchkey-error")).toBe("invalid_body");
});

it("G08 refuses a binary header that is no base64", async () => {
  const { code, message } = await rawGrpc(control(), listPath, { headers: { "x-trace-bin": "!!!" } });
  expect(code).toBe(invalidArgument);
  expect(message).toContain("x-trace-bin");
  // Padded or not, one value or several: gRPC sends all of these.
  for (const good of ["AAEC", "AAE=", "AAE", "AAEC,AAE"]) {
    const { code: taken } = await rawGrpc(control(), listPath, { headers: { "x-trace-bin": good } });
    expect({ good, taken }).toEqual({ good, taken: 0 });
  }
});

it.each([
  ["1,000 lines", Array.from({ length: 1_000 }, (_, i) => [`x${i}`, "y"])],
  ["1 MiB of metadata", Array.from({ length: 64 }, (_, i) => [`x${i}`, "y".repeat(16 * 1024)])],
] as const)("G08 refuses %s over HTTP/1.1", async (_what, lines) => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const request = http.request(`${control()}${listPath}`, { method: "POST" }, (answer) => {
      resolve(answer.statusCode);
      request.destroy();
    });
    for (const [name = "", value = ""] of lines) request.setHeader(name, value);
    request.on("error", reject);
    request.end();
  });
  expect(status).toBe(431);
});

it("G08 refuses 1,000 lines of metadata over HTTP/2", async () => {
  const peer = await openFrames(control());
  const lines = Array.from({ length: 1_000 }, (_, i) => literal(`x${i}`, "y"));
  const payload = Buffer.concat([grpcHead(listPath), ...lines]);
  peer.send(frame("headers", { stream: 1, flags: flags.endHeaders | flags.endStream, payload }));
  await peer.until(() => peer.reset(1) !== undefined);
  expect(peer.reset(1)).toBe(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM);
  peer.socket.destroy();
});

it("G08 ends a connection that sends 1 MiB of metadata over HTTP/2", async () => {
  const peer = await openFrames(control());
  const line = Buffer.concat(Array.from({ length: 100 }, (_, i) => literal(`x${i}`, "y".repeat(120))));
  peer.send(frame("headers", { stream: 1, flags: flags.endStream, payload: grpcHead(listPath) }));
  for (let i = 0; i < 90; i += 1) peer.send(frame("continuation", { stream: 1, payload: line }));
  await peer.closed;
  expect(peer.goaway()).not.toBe(http2.constants.NGHTTP2_NO_ERROR);
  expect((await rawGrpc(control(), listPath)).code).toBe(0);
});

it("G09 asks for a key on every method, before it reads the message", async () => {
  const session = http2.connect(control());
  try {
    for (const method of methods) {
      const path = pathOf(method);
      // No message at all: the next check would report that.
      const { code, trailers, headers } = await rawCall(session, path, { key: "", body: new Uint8Array() });
      expect({ path, code }).toEqual({ path, code: unauthenticated });
      expect({ ...headers, ...trailers }["latchkey-error"]).toBe("missing_auth_header");
    }
  } finally {
    session.destroy();
  }
  expect(methods.length).toBeGreaterThan(60);
});

it.each([
  "Bearer",
  "Basic bGs6",
  `Bearer  ${secretKey}`,
  secretKey,
  `Bearer ${secretKey} `,
  `Bearer ${secretKey}x`,
  `Bearer ${secretKey},Bearer ${secretKey}`,
])("G09 takes no %j for a key", async (authorization) => {
  const { code } = await rawGrpc(control(), listPath, { key: "", headers: { authorization } });
  expect(code).toBe(unauthenticated);
});

it("G09 refuses every method whose scope the key does not have", async () => {
  const proxyOnly = await keyWith(running(), Scope.PROXY);
  const session = http2.connect(control());
  try {
    for (const method of methods.filter((one) => hasOption(one, scope))) {
      // Any key may ask what it is, and this one may send requests.
      const needed = getOption(method, scope);
      if (needed === Scope.UNSPECIFIED || needed === Scope.PROXY) continue;
      const path = pathOf(method);
      const { code } = await rawCall(session, path, { key: proxyOnly });
      expect({ path, code }).toEqual({ path, code: permissionDenied });
      if (needed !== Scope.ADMIN) continue;
      // An environment's key cannot set values beyond its environment, whatever its scopes.
      const { code: withDefaults } = await rawCall(session, path, { key: secretKey });
      expect({ path, withDefaults }).toEqual({ path, withDefaults: permissionDenied });
    }
  } finally {
    session.destroy();
  }
});

it("G09 refuses a second authorization header, rather than choose one of the two", async () => {
  const { port } = new URL(control());
  const lines = [`POST ${listPath} HTTP/1.1`, `host: localhost:${port}`, "content-type: application/json"];
  const keys = [`authorization: Bearer ${secretKey}`, "authorization: Bearer lk_of-somebody-else"];
  for (const two of [keys, keys.toReversed()]) {
    const answer = await say(control(), `${head(...lines, ...two, "content-length: 2")}{}`);
    expect(statusOf(answer)).toBe(400);
    expect(answer).toContain("latchkey-error: duplicate_header");
  }
  expect(statusOf(await say(control(), `${head(...lines, ...keys.slice(0, 1), "content-length: 2")}{}`))).toBe(200);
});

it("G10 takes no GET for a method that changes something", async () => {
  const unary = methods.filter(({ methodKind }) => methodKind === "unary");
  for (const method of unary.filter(({ idempotency }) => idempotency !== Idempotency.NO_SIDE_EFFECTS)) {
    const path = pathOf(method);
    const answer = await fetch(`${control()}${path}?encoding=json&message=%7B%7D`, {
      headers: { authorization: `Bearer ${secretKey}` },
    });
    expect({ path, status: answer.status, allow: answer.headers.get("allow") }).toEqual({
      path,
      status: 405,
      allow: "POST",
    });
  }
});

it("G07 refuses a GET whose message is no base64", async () => {
  const answer = await fetch(`${control()}${listPath}?encoding=json&base64=1&message=!!!`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  expect(answer.status).toBe(400);
  expect(((await answer.json()) as Plain)["code"]).toBe("invalid_argument");
});

it("G17 refuses a write with an older revision, and returns the current one", async () => {
  const { rest } = running();
  await rest("POST", "/connections", { body: keyedConnection("g17") });
  const { body } = await post(control(), "ConnectionService/GetConnection", {
    ref: { integration: "keyed", id: "g17" },
  });
  const { revision } = body["connection"];
  const stale = {
    ref: { integration: "keyed", id: "g17" },
    metadata: { late: true },
    expectedRevision: String(Number(revision) - 1),
  };

  const refused = await post(control(), "ConnectionService/UpdateMetadata", stale);
  expect(refused.status).toBe(409);
  expect(refused.body["code"]).toBe("aborted");
  expect(detailsIn(refused.body)).toMatchObject({ reason: "conflict", metadata: { current_revision: revision } });

  const foreign = foreignClient(control());
  const failure = await foreign
    .unary("ConnectionService/UpdateMetadata", {
      ref: { environment: "dev", integration: "keyed", id: "g17" },
      metadata: { fields: { late: { boolValue: true } } },
      expected_revision: stale.expectedRevision,
    })
    .then(
      () => undefined,
      (error: Plain) => error,
    );
  expect(failure?.["code"]).toBe(10);
  const [details] = failure?.["metadata"].get("grpc-status-details-bin") ?? [];
  expect(details.toString("latin1")).toContain("conflict");
});

it("G18 refuses bytes that are no UTF-8 where a text belongs", async () => {
  // GetIntegrationRequest.key (2), of two bytes that no UTF-8 has.
  const body = envelope(Buffer.from([0x12, 2, 0xff, 0xfe]));
  const { code, headers, trailers } = await rawGrpc(control(), "/latchkey.v1.IntegrationService/GetIntegration", {
    body,
  });
  expect(code).toBe(invalidArgument);
  expect({ ...headers, ...trailers }["latchkey-error"]).toBe("invalid_body");
});

it.each([
  ["a name", '"id":"\\ud800"', '"id" is not valid'],
  ["a value of the metadata", '"metadata":{"a":["\\ud800"]}', "connection.metadata.a.0"],
  ["a key of the metadata", '"metadata":{"\\ud800":1}', "connection.metadata"],
])("G18 refuses half a character in %s, before it is stored as something else", async (_what, part, place) => {
  const { environment, integration, credentials } = item("g18");
  const rest = JSON.stringify({ environment, integration, credentials }).slice(1, -1);
  const { status, body } = await post(
    control(),
    "ConnectionService/ImportConnection",
    `{"connection":{${part},${rest}}}`,
  );
  expect(status).toBe(400);
  expect([body["message"], ...detailsIn(body).fields].join(" ")).toContain(place);
});
