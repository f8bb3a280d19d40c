import { connect } from "node:net";
import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { basic, bearer, started } from "./started.ts";

async function withToken(scopes = ["drive"]) {
  const sandbox = await started();
  const headers = bearer(sandbox.grant({ scopes }).access_token);
  return { ...sandbox, headers };
}

it("lists files in pages, each once", async () => {
  const { get, headers } = await withToken();
  const names: string[] = [];
  let pages = 0;
  let pageToken = "";
  do {
    const response = await get(
      `/drive/v3/files?pageSize=10&pageToken=${pageToken}`.replace(/&pageToken=$/, ""),
      headers,
    );
    const page = (await response.json()) as { files: { name: string }[]; nextPageToken?: string };
    names.push(...page.files.map(({ name }) => name));
    pageToken = page.nextPageToken ?? "";
    pages += 1;
  } while (pageToken !== "");
  expect(pages).toBe(3);
  expect(names).toEqual(Array.from({ length: 25 }, (_, i) => `notes-${i + 1}.txt`));
});

it.each(["pageSize=0", "pageSize=x", "pageToken=garbage"])("refuses %s", async (query) => {
  const { get, headers } = await withToken();
  expect((await get(`/drive/v3/files?${query}`, headers)).status).toBe(400);
});

it("requires a token with one of the scopes, whatever the scope's base URL", async () => {
  const sandbox = await started();
  const none = await sandbox.get("/drive/v3/files");
  expect([none.status, none.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="sandbox"']);
  expect(await none.json()).toMatchObject({ error: { code: 401, errors: [{ reason: "required" }] } });
  const statusOf = async (scopes: string[], path: string, method = "GET") =>
    (await sandbox.send(method, path, { headers: bearer(sandbox.grant({ scopes }).access_token) })).status;
  expect(await statusOf(["https://scopes.example/auth/drive.readonly"], "/drive/v3/files")).toBe(200);
  expect(await statusOf(["drive.readonly"], "/drive/v3/files/file-01", "DELETE")).toBe(403);
  expect(await statusOf(["drive.metadata"], "/drive/v3/files/file-01?alt=media")).toBe(403);
  expect(await statusOf(["calendar"], "/drive/v3/files")).toBe(403);
  expect(await statusOf(["drive"], "/drive/v3/files/file-01", "DELETE")).toBe(204);
});

it("keeps one user's files from another", async () => {
  const sandbox = await started();
  const [ada, bob] = ["ada", "bob"].map((user) => bearer(sandbox.grant({ user: `${user}@example.com` }).access_token));
  await sandbox.send("DELETE", "/drive/v3/files/file-01", ada === undefined ? {} : { headers: ada });
  expect((await sandbox.get("/drive/v3/files/file-01", ada)).status).toBe(404);
  expect((await sandbox.get("/drive/v3/files/file-01", bob)).status).toBe(200);
});

it("takes a file, bytes and all, and gives it back", async () => {
  const { send, get, headers } = await withToken();
  const content = Buffer.from(Array.from({ length: 70_000 }, (_, i) => i % 256));
  const made = await send("POST", "/upload/drive/v3/files?uploadType=media&name=bytes.bin", {
    headers: { ...headers, "content-type": "image/png" },
    body: content,
  });
  const { id, ...file } = (await made.json()) as Record<string, string>;
  expect(file).toMatchObject({ name: "bytes.bin", mimeType: "image/png", size: "70000" });
  const back = await get(`/drive/v3/files/${id}?alt=media`, headers);
  expect(back.headers.get("content-type")).toBe("image/png");
  expect(Buffer.from(await back.arrayBuffer()).equals(content)).toBe(true);
});

it("takes a description and a file in one body", async () => {
  const { send, get, headers } = await withToken();
  const body = [
    "--a-boundary",
    "Content-Type: application/json",
    "",
    '{"name":"two parts.txt"}',
    "--a-boundary",
    "Content-Type: text/x-odd",
    "",
    "first line\r\n--a-bound\r\nlast line",
    "--a-boundary--",
    "",
  ].join("\r\n");
  const type = { ...headers, "content-type": 'multipart/related; boundary="a-boundary"' };
  const made = await send("POST", "/upload/drive/v3/files?uploadType=multipart", { headers: type, body });
  const { id, ...file } = (await made.json()) as Record<string, string>;
  expect(file).toMatchObject({ name: "two parts.txt", mimeType: "text/x-odd" });
  const back = await get(`/drive/v3/files/${id}?alt=media`, headers);
  expect(await back.text()).toBe("first line\r\n--a-bound\r\nlast line");
  const broken = await send("POST", "/upload/drive/v3/files?uploadType=multipart", {
    headers: type,
    body: "--a-boundary",
  });
  expect(broken.status).toBe(400);
});

it("creates, renames and deletes", async () => {
  const { send, get, headers } = await withToken();
  const { id } = (await (await send("POST", "/drive/v3/files", { headers, body: { name: "a" } })).json()) as {
    id: string;
  };
  const renamed = await send("PATCH", `/drive/v3/files/${id}`, { headers, body: { name: "b" } });
  expect(await renamed.json()).toMatchObject({ id, name: "b", version: "2" });
  expect((await send("DELETE", `/drive/v3/files/${id}`, { headers })).status).toBe(204);
  expect((await get(`/drive/v3/files/${id}`, headers)).status).toBe(404);
});

it("refuses a file above the limit", async () => {
  const { send, headers } = await withToken();
  const body = Buffer.alloc(33_554_433);
  const type = { ...headers, "content-type": "x/y" };
  const response = await send("POST", "/upload/drive/v3/files", { headers: type, body });
  expect(response.status).toBe(413);
  expect((await send("POST", "/drive/v3/files", { headers, body: { name: "x".repeat(1_048_577) } })).status).toBe(413);
});

const first = "File 1 of Ada Lovelace.\n";

it("gives its 413 to a client that is still writing", async () => {
  const { origin, headers } = await withToken();
  const socket = connect(Number(new URL(origin).port), "127.0.0.1");
  const head = ["POST /upload/drive/v3/files HTTP/1.1", "host: x", `authorization: ${headers.authorization}`];
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    text += chunk;
  });
  const error = new Promise((resolve) => socket.on("error", resolve));
  // Twice the limit, and every byte is written before any is read.
  socket.pause();
  socket.write(`${head.join("\r\n")}\r\ncontent-length: 67108864\r\n\r\n`);
  const written = new Promise((resolve) => socket.write(Buffer.alloc(67_108_864), resolve));
  expect(await Promise.race([written, error])).toBeFalsy();
  socket.resume();
  await expect.poll(() => text).toMatch(/^HTTP\/1\.1 413 /);
  socket.destroy();
});

it.each([
  ["bytes=0-3", 206, first.slice(0, 4), "bytes 0-3/24"],
  ["bytes=5-", 206, first.slice(5), "bytes 5-23/24"],
  ["bytes=-3", 206, "e.\n", "bytes 21-23/24"],
  ["bytes=-99", 206, first, "bytes 0-23/24"],
  ["bytes=20-99", 206, first.slice(20), "bytes 20-23/24"],
  ["bytes=0-0", 206, "F", "bytes 0-0/24"],
  ["bytes=24-", 416, "", "bytes */24"],
  ["bytes=0-1,3-4", 200, first, null],
  ["lines=1-2", 200, first, null],
])("serves the range %s", async (range, status, text, contentRange) => {
  const { get, headers } = await withToken();
  const response = await get("/drive/v3/files/file-01?alt=media", { ...headers, range });
  expect([response.status, await response.text(), response.headers.get("content-range")]).toEqual([
    status,
    text,
    contentRange,
  ]);
});

it("answers 304 for an unchanged file", async () => {
  const { get, send, headers } = await withToken();
  const etag = (await get("/drive/v3/files/file-02?alt=media", headers)).headers.get("etag") ?? "";
  const again = () => get("/drive/v3/files/file-02?alt=media", { ...headers, "if-none-match": `"x", W/${etag}` });
  const unchanged = await again();
  expect([unchanged.status, await unchanged.text(), unchanged.headers.get("etag")]).toEqual([304, "", etag]);
  const part = { ...headers, range: "bytes=0-1" };
  expect((await get("/drive/v3/files/file-02?alt=media", { ...part, "if-range": etag })).status).toBe(206);
  await send("PATCH", "/drive/v3/files/file-02", { headers, body: { name: "new" } });
  expect((await again()).status).toBe(200);
  expect((await get("/drive/v3/files/file-02?alt=media", { ...part, "if-range": etag })).status).toBe(200);
});

it("takes its time over a slow stream, and loses no byte", async () => {
  const { get, headers } = await withToken();
  const elapsed = startStopwatch();
  const response = await get("/drive/v3/slow?bytes=200007&seconds=1", headers);
  const firstMs = elapsed.ms;
  const text = await response.text();
  expect(elapsed.passedMs).toBeGreaterThan(850);
  expect(firstMs).toBeLessThan(500);
  expect(text.length).toBe(200_007);
  expect(text).toBe("0123456789abcdef".repeat(12_501).slice(0, 200_007));
  const head = await fetch(response.url, { method: "HEAD", headers });
  expect([head.status, head.headers.get("content-length"), await head.text()]).toEqual([200, "200007", ""]);
});

it("sends events as they happen", async () => {
  const { get, headers } = await withToken();
  const response = await get("/drive/v3/events?count=3&everyMs=150", headers);
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const arrivals: number[] = [];
  let text = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    arrivals.push(performance.now());
    text += decoder.decode(chunk, { stream: true });
  }
  expect(text.match(/^data: .*$/gm)).toEqual(['data: {"number":1}', 'data: {"number":2}', 'data: {"number":3}']);
  expect(arrivals.length).toBe(3);
  expect((arrivals[2] ?? 0) - (arrivals[0] ?? 0)).toBeGreaterThan(250);
});

it("accepts an API key and a password, and echoes the request", async () => {
  const { get, send } = await started();
  expect(await (await get("/api/me", { "x-api-key": "sandbox-api-key" })).json()).toMatchObject({ by: "api_key" });
  expect(await (await get("/api/me?api_key=sandbox-api-key")).json()).toMatchObject({ by: "api_key" });
  const password = { authorization: basic("sandbox", "sandbox-password") };
  expect(await (await get("/api/me", password)).json()).toMatchObject({ by: "basic", email: "ada@example.com" });
  const echoed = await send("PUT", "/api/echo/a%2Fb//c?x=%41", {
    headers: { ...password, "x-odd": "ü" },
    body: "content",
  });
  expect(await echoed.json()).toMatchObject({
    method: "PUT",
    target: "/api/echo/a%2Fb//c?x=%41",
    body: "content",
    headers: { "x-odd": "ü" },
  });
  expect((await get("/api/me", { "x-api-key": "wrong" })).status).toBe(401);
  const wrong = await get("/api/me", { authorization: basic("sandbox", "wrong") });
  expect([wrong.status, wrong.headers.get("www-authenticate")]).toEqual([401, 'Basic realm="sandbox"']);
  // Neither opens an endpoint that requires tokens.
  expect((await get("/drive/v3/files", password)).status).toBe(401);
});

it("answers 404 for unknown paths, and 405 with the allowed methods", async () => {
  const { get, send, headers } = await withToken();
  expect((await get("/drive/v2/files", headers)).status).toBe(404);
  const wrong = await send("PUT", "/drive/v3/files", { headers });
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, POST"]);
});
