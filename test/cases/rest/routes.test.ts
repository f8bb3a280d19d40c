import { expect, it } from "vitest";
import { answersIn, head, openWire, say, sidecarOfFile, statusOf } from "../../support/sidecar/door.ts";
import { keyedConnection, secretKey } from "../../support/sidecar/harness.ts";

const running = sidecarOfFile();
const authorization = `authorization: Bearer ${secretKey}`;
const request = (line: string, ...lines: readonly string[]) =>
  say(running().data, head(`${line} HTTP/1.1`, "host: localhost", authorization, ...lines));
const codeOf = (answer: string) => /latchkey-error: (\w+)/.exec(answer)?.[1];
const allowOf = (answer: string) => /^allow: (.*)$/im.exec(answer)?.[1]?.trim().split(", ").sort();

it.each([
  ["DELETE", "/connections", ["GET", "HEAD", "POST"]],
  ["PUT", "/connections/x", ["DELETE", "GET", "HEAD", "PATCH"]],
  ["GET", "/connection/metadata", ["PATCH", "POST"]],
  ["HEAD", "/connection/metadata", ["PATCH", "POST"]],
  ["POST", "/health", ["GET", "HEAD"]],
  ["PATCH", "/providers", ["GET", "HEAD"]],
  ["TRACE", "/connections", ["GET", "HEAD", "POST"]],
  ["PROPFIND", "/connections", ["GET", "HEAD", "POST"]],
])("R19 refuses %s on %s with the allowed methods", async (method, path, allowed) => {
  const wire = await openWire(running().data);
  wire.send(head(`${method} ${path} HTTP/1.1`, "host: localhost", authorization, "connection: close"));
  const answer = await wire.ended;
  expect(statusOf(answer)).toBe(405);
  expect(codeOf(answer)).toBe("method_not_allowed");
  expect(allowOf(answer)).toEqual(allowed);
});

it("R19 opens no tunnel", async () => {
  const wire = await openWire(running().data);
  wire.send(head("CONNECT evil.test:443 HTTP/1.1", "host: localhost", authorization));
  const answer = await wire.ended;
  expect(statusOf(answer)).toBe(405);
  expect(allowOf(answer)).toContain("GET");
  expect(answer).toContain("connection: close");
});

it.each(["/connections", "/connections/headed?provider_config_key=keyed", "/health", "/providers", "/nowhere"])(
  "R19 answers HEAD %s as GET, without the body",
  async (path) => {
    await running().rest("POST", "/connections", { body: keyedConnection("headed") });
    const wire = await openWire(running().data);
    const ask = (method: string) => wire.send(head(`${method} ${path} HTTP/1.1`, "host: localhost", authorization));
    const top = (answer: string) => answer.split("\r\n\r\n")[0]?.replace(/^date:.*\r\n/im, "");
    ask("HEAD");
    const headed = await wire.until((text) => text.includes("\r\n\r\n"));
    expect(headed.endsWith("\r\n\r\n")).toBe(true);
    // On the same connection: a response body would appear before this response.
    ask("GET");
    const both = await wire.until((text) => answersIn(text) === 2 && text.endsWith("}"));
    wire.socket.destroy();
    expect(top(both.slice(headed.length))).toBe(top(headed));
  },
);

it("R19 answers OPTIONS with the allowed methods, without a key", async () => {
  const ask = async (path: string) => {
    const wire = await openWire(running().data);
    wire.send(head(`OPTIONS ${path} HTTP/1.1`, "host: localhost", "connection: close"));
    return wire.ended;
  };
  expect(statusOf(await ask("*"))).toBe(204);
  const connections = await ask("/connections");
  expect(statusOf(connections)).toBe(204);
  expect(allowOf(connections)).toEqual(["GET", "HEAD", "OPTIONS", "POST"]);
  expect(statusOf(await ask("/nowhere"))).toBe(404);
  // The provider may implement OPTIONS: it is forwarded like any other request.
  expect(statusOf(await ask("/proxy/x"))).toBe(401);
});

it.each([
  "/Connections",
  "/CONNECTIONS",
  "/connections//x",
  "//connections",
  "/connections/",
  "/connections/x/",
  "/connections/%2e%2e/x",
  "/connections/..",
  "/connections/%2e%2e?provider_config_key=keyed",
  "/connections/%2E",
  "/connections/%zz",
  "/connections/%ff",
  "/connections/x/y",
  "/connections%2fx",
  "/connections;a=b",
  "/connection",
  "/health/",
  "/__proto__",
  "/constructor",
  "/integrations/",
  "/providers/x/templates/y",
  "/proxyx",
])("R20 answers 404 in JSON at %s", async (path) => {
  const answer = await request(`GET ${path}`);
  expect(statusOf(answer)).toBe(404);
  expect(codeOf(answer)).toBe("not_found");
  expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "")).toMatchObject({
    error: { code: "not_found", message: "no such route", doc_url: expect.stringContaining("/docs/errors#not_found") },
  });
});

it("R20 takes no request that names no path, or one that is too long", async () => {
  // A whole URL is a request to a forward proxy.
  expect(codeOf(await request("GET http://localhost/connections"))).toBe("invalid_headers");
  expect(codeOf(await request("GET *"))).toBe("invalid_path");
  const long = await request(`GET /connections?search=${"x".repeat(9_000)}`);
  expect(statusOf(long)).toBe(414);
  const many = Array.from({ length: 201 }, (_, i) => `x-${i}: y`);
  expect(statusOf(await request("GET /health", ...many))).toBe(431);
});

it("marks its own answers, and forbids caching", async () => {
  const { rest } = running();
  for (const path of ["/health", "/connections", "/nowhere", "/providers/nobody"]) {
    const { status, headers, body } = await rest("GET", path);
    expect(headers.get("latchkey-version")).toMatch(/^\d+\.\d+\.\d+/);
    expect(headers.get("latchkey-error")).toBe(status === 200 ? null : body.error.code);
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  }
});

it("answers pipelined requests in order", async () => {
  const wire = await openWire(running().data);
  const paths = ["/health", "/nowhere", "/providers/calendar", "/connections/nobody?provider_config_key=keyed"];
  wire.send(paths.map((path) => head(`GET ${path} HTTP/1.1`, "host: localhost", authorization)).join(""));
  const text = await wire.until((so) => answersIn(so) === 4 && so.endsWith("}"));
  wire.socket.destroy();
  expect([...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status)).toEqual(["200", "404", "200", "404"]);
});
