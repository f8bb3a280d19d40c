import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { head, openWire, say, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { keyedConnection, secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { type Running, serveInProcess } from "../../support/sidecar/process.ts";

const running = sidecarOfFile();
const limit = 512 * 1024;
const authorization = `authorization: Bearer ${secretKey}`;

async function post(body: string | Uint8Array<ArrayBuffer>, headers: Readonly<Record<string, string>> = {}) {
  const answer = await fetch(`${running().data}/connections`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json", ...headers },
    body,
  });
  const { error } = (await answer.json()) as { error?: { code: string } };
  return { status: answer.status, code: error?.code };
}

const text = JSON.stringify(keyedConnection("from-text"));

it.each<readonly [string, string | Uint8Array<ArrayBuffer>, string]>([
  ["half an object", "{", "invalid_json"],
  ["null", "null", "invalid_body"],
  ["an array", "[]", "invalid_body"],
  ["a string", '"x"', "invalid_body"],
  ["a number", "1", "invalid_body"],
  ["nothing", "", "invalid_body"],
  ["blanks", "  ", "invalid_json"],
  ["something behind the object", '{"a":1}x', "invalid_json"],
  ["UTF-16", new Uint8Array(Buffer.from(text, "utf16le")), "invalid_json"],
  ["UTF-16 with its byte order mark", new Uint8Array(Buffer.from(`\ufeff${text}`, "utf16le")), "invalid_json"],
  ["a byte order mark, which JSON has not", `\ufeff${text}`, "invalid_json"],
  ["bytes that are no UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "invalid_json"],
  ["a comment", `/**/${text}`, "invalid_json"],
  ["an unquoted key", "{a:1}", "invalid_json"],
  ["a hundred thousand brackets", "[".repeat(100_000), "invalid_json"],
])("R06 takes no body that is %s", async (_name, body, code) => {
  expect(await post(body)).toEqual({ status: 400, code });
});

it("R06 does not wait for a body when the head declares none", async () => {
  const lines = ["host: localhost", authorization, "content-type: application/json"];
  expect(await say(running().data, head("POST /connections HTTP/1.1", ...lines))).toContain('"invalid_body"');
});

it("R06 never quotes a body that it could not read", async () => {
  const { rest } = running();
  const { body } = await rest("POST", "/connections", { body: '{"credentials":{"apiKey":"sk-live-secret" "oops"' });
  expect(JSON.stringify(body)).not.toContain("sk-live");
});

it.each([
  "text/plain",
  "application/x-www-form-urlencoded",
  "application/json; charset=utf-16",
  "application/json; charset=iso-8859-1",
  "application/jsonp",
  "application/merge-patch+json",
  "json",
])("R07 takes no JSON that calls itself %s", async (type) => {
  expect(await post(text, { "content-type": type })).toEqual({ status: 415, code: "unsupported_media_type" });
});

it("R07 refuses a body without framing", async () => {
  const lines = ["host: localhost", authorization, "connection: close", `content-length: ${text.length}`];
  const answer = await say(running().data, head("POST /connections HTTP/1.1", ...lines) + text);
  expect(statusOf(answer)).toBe(415);
});

it.each([
  "application/json",
  "Application/JSON",
  "application/json;charset=UTF-8",
  'application/json; charset="utf-8"',
])("R07 takes JSON that calls itself %s", async (type) => {
  expect(await post(text, { "content-type": type })).toEqual({ status: 201, code: undefined });
});

/** A valid connection of exactly so many bytes. */
function ofLength(bytes: number): string {
  const empty = JSON.stringify(keyedConnection("sized", { padding: "" }));
  return JSON.stringify(keyedConnection("sized", { padding: "x".repeat(bytes - empty.length) }));
}

it("R08 takes a body of the limit and none of a byte more, with its length and in chunks", async () => {
  expect(await post(ofLength(limit))).toEqual({ status: 201, code: undefined });
  expect(await post(ofLength(limit + 1))).toEqual({ status: 413, code: "payload_too_large" });

  const lines = ["host: localhost", authorization, "content-type: application/json", "transfer-encoding: chunked"];
  const chunked = (body: string) =>
    `${head("POST /connections HTTP/1.1", ...lines, "connection: close")}${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  expect(statusOf(await say(running().data, chunked(ofLength(limit))))).toBe(201);
  expect(statusOf(await say(running().data, chunked(ofLength(limit + 1))))).toBe(413);
});

it("R08 closes the connection over a body that is too large, before its end", async () => {
  for (const framing of ["content-length: 600000", "transfer-encoding: chunked"]) {
    const wire = await openWire(running().data);
    const lines = ["host: localhost", authorization, "content-type: application/json", framing];
    wire.send(head("POST /connections HTTP/1.1", ...lines));
    if (framing.startsWith("transfer")) wire.send(`fffff\r\n${"x".repeat(limit + 1)}`);
    const answer = await wire.ended;
    expect(statusOf(answer)).toBe(413);
    expect(answer).toContain("connection: close");
  }
});

/** Resident memory of a process, in bytes. */
async function residentOf({ child }: Running): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

it("R08 R09 holds no more of large bodies than it is allowed to read of them", async () => {
  const process = await serveInProcess({ folder: await temporaryFolder() });
  const data = process.address("data");
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const chunk = `100000\r\n${"x".repeat(1024 * 1024)}\r\n`;
  const lines = ["host: localhost", authorization, "content-type: application/json"];
  async function offer(): Promise<void> {
    const endless = head("POST /connections HTTP/1.1", ...lines, "transfer-encoding: chunked") + chunk.repeat(16);
    expect(statusOf(await say(data, endless))).toBe(413);
    const framing = ["content-encoding: gzip", `content-length: ${bomb.length}`];
    const packed = Buffer.concat([Buffer.from(head("POST /connections HTTP/1.1", ...lines, ...framing)), bomb]);
    expect(statusOf(await say(data, packed))).toBe(415);
  }
  // Lets the runtime allocate its code and heap first.
  for (let i = 0; i < 30; i += 1) await offer();
  const before = await residentOf(process);
  for (let i = 0; i < 30; i += 1) await offer();
  const grown = (await residentOf(process)) - before;
  // 480 MiB were sent uncompressed, and 1,920 MiB compressed.
  expect(grown).toBeLessThan(32 * 1024 * 1024);
});

it.each(["gzip", "br", "deflate", "identity, gzip"])("R09 decompresses nothing (%s)", async (encoding) => {
  const packed = new Uint8Array(gzipSync(text));
  expect(await post(packed, { "content-encoding": encoding })).toEqual({ status: 415, code: "unsupported_media_type" });
});

it("R10 uses the last of two equal keys in the answer, the store and the audit trail", async () => {
  const { rest, client } = running();
  const body = `{"connection_id":"first-of-two",${JSON.stringify(keyedConnection("last-of-two")).slice(1)}`;
  const { status, body: answered } = await rest("POST", "/connections", { body });
  expect({ status, id: answered.connection_id }).toEqual({ status: 201, id: "last-of-two" });
  expect((await rest("GET", "/connections/first-of-two?provider_config_key=keyed")).status).toBe(404);
  expect((await rest("GET", "/connections/last-of-two?provider_config_key=keyed")).status).toBe(200);
  const { events } = await client(LogService).listAuditEvents({ environment: "dev", action: "connection.import" });
  const targets = events.flatMap((event) => event.targets);
  expect(targets).toContain("keyed/last-of-two");
  expect(targets).not.toContain("keyed/first-of-two");
});

it("R21 releases a request whose caller leaves in mid-body", async () => {
  const { rest, metric, logged } = running();
  const open = 'latchkey_http_requests_open{door="data"}';
  const body = JSON.stringify(keyedConnection("never-sent"));
  const lines = ["host: localhost", authorization, "content-type: application/json", `content-length: ${body.length}`];
  const leave = {
    "by a reset": async (wire: Awaited<ReturnType<typeof openWire>>) => void wire.socket.resetAndDestroy(),
    "by closing": async (wire: Awaited<ReturnType<typeof openWire>>) => void wire.socket.destroy(),
    "by an end": async (wire: Awaited<ReturnType<typeof openWire>>) => void wire.socket.end(),
  };
  const linesBefore = logged.length;
  for (const [how, go] of Object.entries(leave)) {
    const wire = await openWire(running().data);
    wire.send(head("POST /connections HTTP/1.1", ...lines) + body.slice(0, -1));
    await expect.poll(() => metric(open), { message: how }).toBe(1);
    await go(wire);
    await wire.ended;
    await expect.poll(() => metric(open), { message: how }).toBe(0);
  }
  expect((await rest("GET", "/connections/never-sent?provider_config_key=keyed")).status).toBe(404);
  expect(logged.slice(linesBefore).filter((line) => /"level":"(warn|error)"/.test(line))).toEqual([]);
  expect((await metric("latchkey_unhandled_errors_total")) ?? 0).toBe(0);
});

it("R21 answers once when a body breaks off being HTTP", async () => {
  const wire = await openWire(running().data);
  const lines = ["host: localhost", authorization, "content-type: application/json", "transfer-encoding: chunked"];
  wire.send(`${head("POST /connections HTTP/1.1", ...lines)}2\r\n{"\r\nnot-a-length\r\n`);
  const answer = await wire.ended;
  expect(statusOf(answer)).toBe(400);
  expect(answer.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  await expect.poll(() => running().metric('latchkey_http_requests_open{door="data"}')).toBe(0);
});
