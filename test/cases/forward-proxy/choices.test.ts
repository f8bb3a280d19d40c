import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { AuthorityService } from "../../../src/gen/latchkey/v1/authority_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  apiHost,
  askRaw,
  basic,
  type ForwardProxied,
  openSecure,
  otherHost,
  sendConnect,
  startForwardProxied,
  startTlsProvider,
  type TlsAnswer,
  type TlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** Says with which credential it was asked. */
const telling: TlsAnswer = ({ url, headers }, response) => {
  response.writeHead(200, {
    "content-type": "application/json",
    "set-cookie": "a=b",
    location: `https://${headers["host"] ?? apiHost}/next`,
  });
  response.end(JSON.stringify({ url, by: headers.authorization, cookie: headers.cookie ?? null }));
};

describe.skipIf(lacks("openssl"))("the connection of a request of the forward proxy", () => {
  let provider: TlsProvider;
  let sidecar: ForwardProxied;
  let folder = "";
  let shared = "";
  let several = "";

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-forward-"));
    provider = await startTlsProvider({ answer: telling });
    shared = `${apiHost}:${provider.port}`;
    several = `${otherHost}:${provider.port}`;
    sidecar = await startForwardProxied(provider, {
      folder,
      integrations: {
        events: { baseUrl: `https://${shared}/calendar` },
        files: { baseUrl: `https://${shared}/drive/v3` },
        several: { baseUrl: `https://${several}`, connections: ["ada", "bob"] },
      },
      files: {
        "/config":
          "aliases: [{ name: bob, environment: dev, integration: several, connection: bob, listen: '127.0.0.1:0' }]",
      },
      env: { LATCHKEY_CONFIG: "/config" },
    });
  });
  afterAll(async () => {
    await sidecar?.stop();
    provider?.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function ask(authority: string, path: string, { authorization, lines = "", proxy }: AskOptions = {}) {
    const client = await openSecure(proxy ?? sidecar.proxy, authority, { ca: sidecar.ca, authorization });
    const text = await askRaw(client, `GET ${path} HTTP/1.1\r\nHost: ${authority}\r\n${lines}\r\n`);
    client.destroy();
    return text;
  }
  interface AskOptions {
    readonly authorization?: string;
    readonly lines?: string;
    readonly proxy?: string;
  }

  it("is that of the integration whose path the request has", async () => {
    expect(await ask(shared, "/calendar/v3/events")).toContain('"by":"Bearer the-provider-token-of-ada"');
    expect(await ask(shared, "/drive/v3/files")).toContain('"url":"/drive/v3/files"');
    // A path of neither fits both.
    expect(await ask(shared, "/drive/v30")).toMatch(
      /^HTTP\/1\.1 409 [\s\S]*ambiguous_connection[\s\S]*events\/ada, files\/ada/,
    );
  });

  it("must be named where there are several", async () => {
    expect(await ask(several, "/")).toMatch(/^HTTP\/1\.1 409 [\s\S]*several\/ada, several\/bob/);
    const byUser = await ask(several, "/", { authorization: basic("several/bob", secretKey) });
    expect(byUser).toContain('"by":"Bearer the-provider-token-of-bob"');
    const byHeaders = await ask(several, "/", { lines: "Provider-Config-Key: several\r\nConnection-Id: bob\r\n" });
    expect(byHeaders).toContain('"by":"Bearer the-provider-token-of-bob"');
    const unknown = await ask(several, "/", { authorization: basic("several/carl", secretKey) });
    expect(unknown).toMatch(/^HTTP\/1\.1 404 [\s\S]*unknown_connection/);
  });

  it("must be bound to the host, even if it is named", async () => {
    const named = await ask(shared, "/", { lines: "Provider-Config-Key: several\r\nConnection-Id: bob\r\n" });
    expect(named).toMatch(/^HTTP\/1\.1 403 [\s\S]*host_not_allowed/);
    const { status } = await sendConnect(sidecar.proxy, shared, { authorization: basic("several/bob", secretKey) });
    expect(status).toBe(403);
  });

  it("is the one that the key is limited to", async () => {
    const limits = { connections: [{ integration: "several", id: "bob" }], paths: ["/v1/**"] };
    const { secret } = await sidecar.client(EnvironmentService).createKey({ environment: "dev", limits });
    const authorization = `Bearer ${secret}`;
    expect(await ask(several, "/v1/x", { authorization })).toContain('"by":"Bearer the-provider-token-of-bob"');
    expect(await ask(several, "/v2/x", { authorization })).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
    const lines = "Provider-Config-Key: several\r\nConnection-Id: ada\r\n";
    expect(await ask(several, "/v1/x", { authorization, lines })).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
  });

  it("is not shown to a key that is limited to others, nor is its host", async () => {
    const limits = { connections: [{ integration: "several", id: "bob" }] };
    const { secret } = await sidecar.client(EnvironmentService).createKey({ environment: "dev", limits });
    const refused = async (authority: string) => {
      const { text } = await sendConnect(sidecar.proxy, authority, { authorization: `Bearer ${secret}` });
      expect(text).toMatch(/^HTTP\/1\.1 403 [\s\S]*latchkey-error: not_in_session/i);
      return JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4)).error.message;
    };
    // The same answer for the host of another integration and for the host of none.
    const message = (authority: string) => `the caller's limits include no connection with the host ${authority}`;
    expect(await refused(shared)).toBe(message(shared));
    expect(await refused("nothing.test:443")).toBe(message("nothing.test"));
    const plain = async (host: string) => {
      const headers = { "proxy-authorization": `Bearer ${secret}`, host };
      const request = http.request(sidecar.proxy, { path: `http://${host}/`, headers }).end();
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      response.resume();
      return response.headers["latchkey-error"];
    };
    expect([await plain(shared), await plain("nothing.test")]).toEqual(["not_in_session", "not_in_session"]);
  });

  it("is the one that an access session names, on the listener of its audience, until the session ends", async () => {
    const create = async (listener: string) => {
      const limits = { connections: [{ integration: "several", id: "bob" }], methods: ["GET"] };
      const body = { limits, audience: { listeners: [listener] } };
      return (await sidecar.rest("POST", "/access-sessions", { body })).body.data;
    };
    const { id, token } = await create("forward");
    const authorization = basic("several/bob", token);
    expect(await ask(several, "/v1/x", { authorization })).toContain('"by":"Bearer the-provider-token-of-bob"');
    const lines = "Provider-Config-Key: several\r\nConnection-Id: ada\r\n";
    const bare = `Bearer ${token}`;
    expect(await ask(several, "/v1/x", { authorization: bare, lines })).toMatch(
      /^HTTP\/1\.1 403 [\s\S]*not_in_session/,
    );
    const other = await create("data");
    const refused = await ask(several, "/v1/x", { authorization: `Bearer ${other.token}` });
    expect(refused).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
    expect((await sidecar.rest("DELETE", `/access-sessions/${id}`)).status).toBe(200);
    await expect
      .poll(async () => (await sendConnect(sidecar.proxy, several, { authorization: bare })).status)
      .toBe(407);
  });

  it("is that of the alias on its listener", async () => {
    const proxy = sidecar.sidecar.aliases["bob"] ?? "";
    expect(await ask(several, "/", { proxy })).toContain('"by":"Bearer the-provider-token-of-bob"');
    expect((await sendConnect(proxy, shared)).status).toBe(403);
  });

  it("is chosen for plain URLs too, which go out with TLS", async () => {
    const { socket } = await sendConnect(sidecar.proxy, shared);
    socket.destroy();
    const { hostname, port } = new URL(sidecar.proxy);
    const { request } = await import("node:http");
    const answer = await new Promise<{ status: number; text: string; headers: object }>((resolve, reject) => {
      const sent = request({
        hostname,
        port,
        path: `http://${shared}/calendar/x`,
        headers: { host: shared, "proxy-authorization": basic("latchkey", secretKey), authorization: "Bearer dummy" },
      });
      sent.once("error", reject).once("response", async (response) => {
        let text = "";
        for await (const chunk of response) text += chunk;
        resolve({ status: response.statusCode ?? 0, text, headers: response.headers });
      });
      sent.end();
    });
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('"by":"Bearer the-provider-token-of-ada"');
    const none = await fetch(`${sidecar.proxy}/`, { method: "GET" });
    expect(none.status).toBe(404);
  });

  it("passes on neither cookies nor the proxy's key, and leaves redirects as they are", async () => {
    const text = await ask(shared, "/calendar/x", { lines: "Cookie: a=b\r\nProxy-Authorization: Basic eDp5\r\n" });
    expect(text).toContain('"cookie":null');
    expect(text).not.toMatch(/set-cookie/i);
    expect(text).toMatch(new RegExp(`location: https://${shared}/next`, "i"));
    expect(JSON.stringify(provider.seen.at(-1)?.headers)).not.toContain("eDp5");
  });

  it("serves WebSockets", async () => {
    const sockets = new WebSocketServer({ noServer: true });
    provider.server.on("upgrade", (request, socket, head) => {
      sockets.handleUpgrade(request, socket, head, (open) =>
        open.on("message", (data) => open.send(`${request.headers.authorization} ${data}`)),
      );
    });
    const client = await openSecure(sidecar.proxy, shared, { ca: sidecar.ca });
    const socket = new WebSocket(`wss://${shared}/calendar/live`, { createConnection: () => client });
    await once(socket, "open");
    socket.send("hello");
    expect(String((await once(socket, "message"))[0])).toBe("Bearer the-provider-token-of-ada hello");
    socket.close(1_000);
    await once(socket, "close");
    sockets.close();
  });

  it("stays available while its authority is rotated", async () => {
    const authorities = sidecar.client(AuthorityService);
    const idOf = (pem: string | undefined) => new X509Certificate(pem ?? "").subject;
    const { certificates } = await authorities.rotateAuthority({});
    expect(certificates).toHaveLength(2);
    // Programs that know only the old one work until the overlap ends.
    expect(await ask(shared, "/calendar/x")).toContain("200 OK");
    await expect(authorities.rotateAuthority({})).rejects.toThrow(/overlap/);
    const [only, ...others] = (await authorities.rotateAuthority({ overlap: { seconds: 0n, nanos: 0 } })).certificates;
    expect(others).toEqual([]);
    await expect(openSecure(sidecar.proxy, shared, { ca: sidecar.ca })).rejects.toThrow();
    const client = await openSecure(sidecar.proxy, shared, { ca: only?.pem ?? "" });
    expect(client.getPeerX509Certificate()?.issuer).toBe(idOf(only?.pem));
    client.destroy();
    expect((await authorities.getAuthority({})).proxyAddress).toBe(sidecar.proxy);
  });
});
