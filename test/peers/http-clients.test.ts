import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import axios from "axios";
import { Agent, ProxyAgent, request, WebSocket as UndiciWebSocket } from "undici";
import { describe, expect, it, onTestFinished } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Asked, connectionHeaders, expectAllClean, expectClean, type Origin, startOrigin } from "./origin.ts";

/** Programs that know of nothing but HTTP. */

const echo = ({ method, url, body }: Asked) => ({ body: { method, url, body } });
const withKey = { authorization: `Bearer ${secretKey}`, ...connectionHeaders };

describe.skipIf(lacks("curl"))("curl", () => {
  const curl = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/_proxy$/i.test(name)));
    const options = { timeout: 50_000, env: { ...own, ...env } };
    const { stdout } = await promisify(execFile)("curl", ["-sS", "--max-time", "15", ...args], options);
    return stdout;
  };
  const headers = Object.entries(connectionHeaders).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const asKey = ["-H", `Authorization: Bearer ${secretKey}`];
  const originOf = ({ config }: Origin) => config.allowPrivate[0] ?? "";

  it("works under the prefix and through an alias", async () => {
    const origin = await startOrigin(echo);
    const said = await curl(["-g", ...asKey, ...headers, `${origin.data}/proxy/a%2Fb?x={1}&y=%41`]);
    expect(JSON.parse(said)).toEqual({ method: "GET", url: "/a%2Fb?x={1}&y=%41", body: "" });
    expect(JSON.parse(await curl(["-d", "a=b", ...asKey, `${origin.alias}/v1`]))).toEqual({
      method: "POST",
      url: "/v1",
      body: "a=b",
    });
    // The key as a user name, as such APIs accept it.
    expect(JSON.parse(await curl(["-u", `${secretKey}:`, `${origin.alias}/v1`]))).toMatchObject({ url: "/v1" });
    expectAllClean(origin);
  });

  it("waits for 100-continue with a large body, and accepts compressed responses", async () => {
    const origin = await startOrigin(echo);
    const large = "x".repeat(200_000);
    const file = join(await temporaryFolder(), "large");
    await writeFile(file, large);
    const args = [...asKey, ...headers, "--compressed", "-H", "Expect: 100-continue", "--data-binary", `@${file}`];
    expect(JSON.parse(await curl([...args, "-X", "PUT", `${origin.data}/proxy/large`])).body).toBe(large);
    expect(origin.asked[0]?.headers).not.toHaveProperty("expect");
    expectAllClean(origin);
  });

  it("uses latchkey as its forward proxy, with the key as the proxy's", async () => {
    const origin = await startOrigin(echo);
    const url = `${originOf(origin)}/v1/things?a=b`;
    const proxied = ["-x", origin.data, "--noproxy", ""];
    const byHeader = ["--proxy-header", `Proxy-Authorization: Bearer ${secretKey}`];
    expect(JSON.parse(await curl([...proxied, ...byHeader, ...headers, url]))).toMatchObject({ url: "/v1/things?a=b" });
    const byUser = ["--proxy-user", `${secretKey}:`];
    expect(JSON.parse(await curl([...proxied, ...byUser, ...headers, url]))).toMatchObject({ url: "/v1/things?a=b" });
    const http_proxy = origin.data.replace("http://", `http://${secretKey}:@`);
    expect(JSON.parse(await curl([...headers, url], { http_proxy }))).toMatchObject({ url: "/v1/things?a=b" });
    // A tunnel would show us nothing to attach credentials to.
    const through = curl([...proxied, ...byUser, ...headers, url.replace("http:", "https:")]);
    await expect(through).rejects.toThrow(/405/);
    const elsewhere = await curl([...proxied, ...byUser, ...headers, "-i", "http://elsewhere.example/"]);
    expect(elsewhere).toMatch(/^HTTP\/1\.1 403 [\s\S]*latchkey-error: host_not_allowed/);
    expect(origin.asked).toHaveLength(3);
    expectAllClean(origin);
  });

  it("uses an alias as its forward proxy, without headers", async () => {
    const origin = await startOrigin(echo);
    const args = ["-x", origin.alias, "--noproxy", "", "--proxy-user", `${secretKey}:`, `${originOf(origin)}/v1`];
    expect(JSON.parse(await curl(args))).toMatchObject({ url: "/v1" });
    expectAllClean(origin);
  });
});

describe("undici", () => {
  it("works over one connection, pipelined", async () => {
    const origin = await startOrigin(echo);
    const dispatcher = new Agent({ connections: 1, pipelining: 4 });
    onTestFinished(() => dispatcher.close());
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const { body } = await request(`${origin.data}/proxy/n/${i}`, { dispatcher, headers: withKey });
        return body.json();
      }),
    );
    expect(answers).toEqual(Array.from({ length: 12 }, (_, i) => ({ method: "GET", url: `/n/${i}`, body: "" })));
    const pieces = ["of ", "no known ", "length"];
    const sent = await request(`${origin.data}/proxy/n`, {
      dispatcher,
      method: "PATCH",
      headers: withKey,
      body: Readable.from(pieces),
    });
    expect(await sent.body.json()).toMatchObject({ method: "PATCH", body: pieces.join("") });
    expectAllClean(origin);
  });

  it("takes latchkey for its forward proxy", async () => {
    const origin = await startOrigin(echo);
    const dispatcher = new ProxyAgent({ uri: origin.data, token: `Bearer ${secretKey}`, proxyTunnel: false });
    onTestFinished(() => dispatcher.close());
    const url = `${origin.config.allowPrivate[0]}/v1`;
    const { statusCode, body } = await request(url, { dispatcher, headers: connectionHeaders });
    expect([statusCode, await body.json()]).toEqual([200, { method: "GET", url: "/v1", body: "" }]);
    expectAllClean(origin);
  });
});

describe("axios", () => {
  it("works under the prefix and through an alias", async () => {
    const origin = await startOrigin(echo);
    const client = axios.create({ baseURL: `${origin.data}/proxy`, headers: withKey, proxy: false });
    expect((await client.get("/v1/a b", { params: { q: ["ü", 1] } })).data).toEqual({
      method: "GET",
      url: "/v1/a%20b?q%5B%5D=%C3%BC&q%5B%5D=1",
      body: "",
    });
    const form = new FormData();
    form.append("file", new Blob(["content"]), "a.txt");
    expect((await client.post("/v1/files", form)).data.body).toContain("content");
    const own = axios.create({ baseURL: origin.alias, auth: { username: secretKey, password: "" }, proxy: false });
    expect((await own.delete("/v1/1")).data).toMatchObject({ method: "DELETE", url: "/v1/1" });
    expectAllClean(origin);
  });

  it("takes latchkey for its forward proxy", async () => {
    const origin = await startOrigin(echo);
    const { hostname, port } = new URL(origin.data);
    const { data } = await axios.get(`${origin.config.allowPrivate[0]}/v1?a=b`, {
      headers: connectionHeaders,
      proxy: { protocol: "http", host: hostname, port: Number(port), auth: { username: secretKey, password: "" } },
    });
    expect(data).toEqual({ method: "GET", url: "/v1?a=b", body: "" });
    expectAllClean(origin);
  });
});

describe("WebSocket clients", () => {
  async function startChat() {
    const origin = await startOrigin(echo);
    const sessions = new WebSocketServer({ server: origin.server });
    const handshakes: { rawHeaders: readonly string[]; url: string }[] = [];
    sessions.on("connection", (session, { rawHeaders, url = "" }) => {
      handshakes.push({ rawHeaders, url });
      session.on("message", (data, isBinary) => session.send(data, { binary: isBinary }));
    });
    onTestFinished(() => {
      for (const session of sessions.clients) session.terminate();
    });
    return { ...origin, handshakes };
  }
  const inWs = (address: string) => address.replace("http:", "ws:");

  it.each(["the prefix", "an alias"])("ws works through %s", async (way) => {
    const chat = await startChat();
    const session =
      way === "an alias"
        ? new WebSocket(`${inWs(chat.alias)}/live?a=b`, { headers: { authorization: `Bearer ${secretKey}` } })
        : new WebSocket(`${inWs(chat.data)}/proxy/live?a=b`, { headers: withKey });
    await once(session, "open");
    session.send("hello");
    expect(String((await once(session, "message"))[0])).toBe("hello");
    session.ping();
    await once(session, "pong");
    session.close(1_000);
    expect((await once(session, "close"))[0]).toBe(1_000);
    expect(chat.handshakes.map(({ url }) => url)).toEqual(["/live?a=b"]);
    for (const one of chat.handshakes) expectClean(one);
  });

  it("undici's works under the prefix", async () => {
    const chat = await startChat();
    const session = new UndiciWebSocket(`${inWs(chat.data)}/proxy/live`, { headers: withKey });
    await once(session, "open");
    session.send("hello");
    const [message] = (await once(session, "message")) as [MessageEvent];
    expect(message.data).toBe("hello");
    session.close(1_000);
    await once(session, "close");
    for (const one of chat.handshakes) expectClean(one);
  });

  it("recognizes the provider's refusal", async () => {
    const origin = await startOrigin(() => ({ status: 403, body: { message: "no" } }));
    origin.server.on("upgrade", (_, socket) => {
      socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 16\r\n\r\n{"message":"no"}');
    });
    const session = new WebSocket(`${inWs(origin.data)}/proxy/live`, { headers: withKey });
    const [failure] = await once(session, "error");
    expect(String(failure)).toContain("403");
  });
});
