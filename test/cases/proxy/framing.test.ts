import http from "node:http";
import { expect, it, onTestFinished } from "vitest";
import { type Answering, startProvider, startProxied } from "../../support/peers/provider.ts";
import { call, fieldOf } from "../../support/wire/proxy-call.ts";

const large = "x".repeat(70_000);

/** Bytes after a provider's status line, by path; `${connection}` stands for the options of that field. */
const answers: Readonly<Record<string, string>> = {
  "/length": "Content-Length: 5\r\n\r\nhello",
  "/large": `Content-Length: ${large.length}\r\n\r\n${large}`,
  "/empty": "Content-Length: 0\r\n\r\n",
  "/chunked": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
};
const bodies: Readonly<Record<string, string>> = {
  "/length": "hello",
  "/large": large,
  "/empty": "",
  "/chunked": "hello",
};

const named = [
  "content-length",
  "Content-Length, keep-alive",
  "keep-alive,\tCONTENT-LENGTH ,x-hop",
  "transfer-encoding",
  "content-length, transfer-encoding, content-type, set-cookie, vary, via, date, host",
  "content-length\r\nConnection: x-hop",
];

it("frames each response correctly, whatever fields the provider names in Connection", async () => {
  const saying: Answering = ({ line }, socket) => {
    const [method = "", target = ""] = line.split(" ");
    const { pathname, searchParams } = new URL(target, "http://x");
    const connection = searchParams.get("connection") ?? "";
    const rest = answers[pathname] ?? "";
    const sent = method === "HEAD" ? rest.slice(0, rest.indexOf("\r\n\r\n") + 4) : rest;
    socket.write(`HTTP/1.1 200 OK\r\nConnection: ${connection}\r\nX-Hop: 1\r\nContent-Type: text/plain\r\n${sent}`);
  };
  const provider = await startProvider(saying);
  const running = await startProxied(provider.port);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  for (const connection of named) {
    for (const [path, body] of Object.entries(bodies)) {
      const target = `/proxy${path}?connection=${encodeURIComponent(connection)}`;
      const what = `${path} ${connection}`;
      const text = await running.raw(`GET ${target} HTTP/1.1\r\nHost: localhost\r\n${running.proxyLines}\r\n`, {
        silentMs: 60,
      });
      const head = text.slice(0, text.indexOf("\r\n\r\n"));
      const framing = head.match(/^(?:content-length|transfer-encoding): .*$/gim) ?? [];
      expect(framing, what).toEqual([
        path === "/chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`,
      ]);
      // A field that the connection alone has ends with it.
      if (/x-hop/.test(connection)) expect(head, what).not.toMatch(/x-hop/i);
      // The next answer on the same connection is the next request's.
      const options = { headers: running.proxyHeaders, agent };
      const first = await call(`${running.data}${target}`, options);
      expect([first.status, first.body === body, first.outcome], what).toEqual([200, true, "ended"]);
      const ofHead = await call(`${running.data}${target}`, { ...options, method: "HEAD" });
      expect([ofHead.status, ofHead.body], what).toEqual([200, ""]);
      if (path !== "/chunked") expect(fieldOf(ofHead, "content-length"), what).toBe(String(body.length));
    }
  }
});

it("sends complete requests, whatever fields the caller names in Connection", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  for (const connection of [
    "content-length",
    "content-length, host, transfer-encoding, x-api-key, authorization",
    "x-hop, Content-Length",
  ]) {
    const lines = `Host: localhost\r\n${running.proxyLines}Connection: ${connection}\r\nX-Hop: 1\r\n`;
    const text = await running.raw(`POST /proxy/x HTTP/1.1\r\n${lines}Content-Length: 5\r\n\r\nhello`);
    expect(text, connection).toMatch(/^HTTP\/1\.1 200 /);
  }
  const requests = provider.connections.flatMap((one) => one.requests());
  expect(requests.map(({ body }) => body)).toEqual(["hello", "hello", "hello"]);
  for (const { fields } of requests) {
    const names = fields.map(([name]) => name);
    for (const name of ["host", "x-api-key", "content-length"]) {
      expect(names.filter((one) => one === name)).toEqual([name]);
    }
  }
});
