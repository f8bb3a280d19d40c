import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  apiHost,
  askRaw,
  basic,
  type ForwardProxied,
  openSecure,
  providerToken,
  sendConnect,
  startForwardProxied,
  startTlsProvider,
  type TlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

describe.skipIf(lacks("openssl"))("a tunnel of the forward proxy", () => {
  let provider: TlsProvider;
  let sidecar: ForwardProxied;
  let folder = "";
  let authority = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-forward-"));
    provider = await startTlsProvider();
    sidecar = await startForwardProxied(provider, { folder });
    authority = `${apiHost}:${provider.port}`;
  });
  afterAll(async () => {
    await sidecar?.stop();
    provider?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("keeps the first request in the fast lane, although its route and its connection must be read", async () => {
    const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca });
    const handedOver = async () => (await sidecar.metric("latchkey_proxy_handed_over_total")) ?? 0;
    const before = await handedOver();
    // The route that CONNECT has read is forgotten, and no request has used the connection yet.
    await sleep(1_100);
    expect(await askRaw(secure, `GET /first HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)).toContain("HTTP/1.1 200");
    secure.destroy();
    expect(await handedOver()).toBe(before);
  });

  it("adds the credentials of the only connection, over one connection as often as wanted", async () => {
    const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca });
    for (const path of ["/v1/things?a=b", "/v1/things?a=b", "/proxy/x"]) {
      const text = await askRaw(
        secure,
        `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\nAuthorization: Bearer dummy\r\n\r\n`,
      );
      expect(text).toContain("HTTP/1.1 200");
      expect(text).toContain(`"url":"${path}"`);
    }
    secure.destroy();
    const last = provider.seen.at(-1);
    expect(last?.headers.authorization).toBe(`Bearer ${providerToken}`);
    expect(JSON.stringify(last?.headers)).not.toContain(secretKey);
  });

  it("speaks HTTP/2 on both sides", async () => {
    const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca, tls: { ALPNProtocols: ["h2"] } });
    expect(secure.alpnProtocol).toBe("h2");
    const session = http2.connect(`https://${authority}`, { createConnection: () => secure });
    const stream = session.request({ ":method": "POST", ":path": "/v2" });
    stream.end("hello");
    const [headers] = await once(stream, "response");
    let body = "";
    for await (const chunk of stream) body += chunk;
    session.close();
    expect([headers[":status"], JSON.parse(body)]).toMatchObject([200, { method: "POST", url: "/v2", body: "hello" }]);
    expect(provider.seen.at(-1)?.httpVersion).toBe("2.0");
  });

  it.each([
    ["a bearer key", () => `Bearer ${secretKey}`],
    ["the key as user name", () => basic(secretKey)],
    ["the key as password", () => basic("latchkey", secretKey)],
    ["the connection as user name", () => basic("here/ada", secretKey)],
    ["the connection as an encoded user name", () => basic("here%2Fada", secretKey)],
  ])("takes %s", async (_, authorization) => {
    const secure = await openSecure(sidecar.proxy, authority, { ca: sidecar.ca, authorization: authorization() });
    expect(await askRaw(secure, `GET / HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`)).toContain(
      "200 OK",
    );
  });

  it("asks for a key with 407", async () => {
    const none = await sendConnect(sidecar.proxy, authority, { authorization: "" });
    expect(none.text).toMatch(/^HTTP\/1\.1 407 [\s\S]*proxy-authenticate: Basic realm="latchkey"/);
    expect(none.text).toContain("latchkey-error: proxy_key_required");
    const wrong = await sendConnect(sidecar.proxy, authority, { authorization: basic("latchkey", "lk_wrong") });
    expect(wrong.text).toContain("HTTP/1.1 407");
  });

  it("takes a handshake that begins before the answer", async () => {
    // A TLS client cannot be told to: its first bytes are sent with the head of CONNECT.
    const { socket, status } = await sendConnect(sidecar.proxy, authority, { early: Buffer.from([22, 3, 1]) });
    expect(status).toBe(200);
    socket.destroy();
  });

  it("refuses a host of no integration, and says which are allowed", async () => {
    const { status, text } = await sendConnect(sidecar.proxy, "unknown.example:443");
    expect(status).toBe(403);
    expect(text).toContain("latchkey-error: host_not_allowed");
    expect(text).toContain(`allowed: ${authority}`);
  });

  it("refuses requests outside of a tunnel that name no whole URL", async () => {
    const response = await fetch(`${sidecar.proxy}/proxy/v1`, { headers: { authorization: `Bearer ${secretKey}` } });
    expect(response.status).toBe(404);
  });

  it("takes plain requests in absolute form", async () => {
    const { socket } = await sendConnect(sidecar.proxy, authority);
    socket.destroy();
  });

  it("stops although tunnels are open", async () => {
    const other = await mkdtemp(join(tmpdir(), "latchkey-forward-"));
    const own = await startForwardProxied(provider, { folder: other });
    const secure = await openSecure(own.proxy, authority, { ca: own.ca });
    expect(await askRaw(secure, `GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)).toContain("200 OK");
    const waiting = await sendConnect(own.proxy, authority);
    const ended = [once(secure, "close"), once(waiting.socket.resume(), "close")];
    const begun = await sendConnect(own.proxy, authority);
    const stopped = own.stop();
    // The caller of a tunnel that was just opened is in its handshake.
    const late = tls.connect({ socket: begun.socket, servername: apiHost, ca: own.ca });
    await once(late, "secureConnect");
    expect(await askRaw(late, `GET /late HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)).toContain("200 OK");
    await stopped;
    await Promise.all(ended);
    await rm(other, { recursive: true, force: true });
  });
});
