import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import http2 from "node:http2";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  apiHost,
  askRaw,
  elsewhere,
  type ForwardProxied,
  openSecure,
  otherHost,
  sendConnect,
  startForwardProxied,
  startTlsProvider,
  type TlsProvider,
} from "../../support/peers/forward-proxied.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { streamed } from "../../support/wire/http2-call.ts";

describe.skipIf(lacks("openssl"))("the forward proxy refuses", () => {
  let provider: TlsProvider;
  let sidecar: ForwardProxied;
  let folder = "";
  let authority = "";
  let isPrivate = false;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "latchkey-forward-"));
    provider = await startTlsProvider();
    const tunnels = [`${otherHost}:${provider.port}`, `inside.test:${provider.port}`, "127.0.0.1:1", "localhost:1"];
    sidecar = await startForwardProxied(provider, {
      folder,
      files: {
        "/config": JSON.stringify({
          forward_proxy: { tunnel: tunnels },
          environments: [{ name: "dev" }, { name: "other" }],
        }),
      },
      env: { LATCHKEY_CONFIG: "/config" },
      integrations: {
        here: { baseUrl: `https://${apiHost}:${provider.port}` },
        moving: { baseUrl: `https://moving.test:${provider.port}` },
        misnamed: { baseUrl: `https://misnamed.test:${provider.port}` },
      },
      names: [apiHost, otherHost, elsewhere, "misnamed.test"],
      resolve: async (host) => {
        // A name that has a public address at first, and a private one later.
        if (host === "moving.test") return [{ address: isPrivate ? "10.0.0.1" : "192.0.2.1", family: 4 }];
        return [{ address: host === "inside.test" ? "169.254.169.254" : provider.address, family: 4 }];
      },
    });
    authority = `${apiHost}:${provider.port}`;
  });
  afterAll(async () => {
    await sidecar?.stop();
    provider?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const secure = (options: Partial<Parameters<typeof openSecure>[2]> = {}) =>
    openSecure(sidecar.proxy, authority, { ca: sidecar.ca, ...options });
  const certificates = () => sidecar.metric("latchkey_forward_certificates_total");

  it.each([
    ["another name in the handshake", { servername: elsewhere }],
    ["no name in the handshake", { servername: "" }],
  ])("%s", async (_, options) => {
    const seen = provider.seen.length;
    const { socket } = await sendConnect(sidecar.proxy, authority);
    const client = tls.connect({ socket, ...options, rejectUnauthorized: false });
    client.on("error", () => {});
    client.on("secureConnect", () => client.write(`GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`));
    await closed(client);
    expect(provider.seen).toHaveLength(seen);
    expect(await sidecar.metric('latchkey_forward_handshakes_failed_total{reason="name"}')).toBeGreaterThan(0);
  });

  it.each([
    ["another host", "GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n", 421],
    ["another port of the host", "GET / HTTP/1.1\r\nHost: api.provider.test:1\r\n\r\n", 421],
    ["a whole URL", "GET https://elsewhere.test/ HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n", 421],
    ["two hosts", "GET / HTTP/1.1\r\nHost: AUTHORITY\r\nHost: elsewhere.test\r\n\r\n", 400],
    ["no host", "GET / HTTP/1.1\r\n\r\n", 421],
    ["a tunnel", "CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: elsewhere.test:443\r\n\r\n", 405],
    ["a trace", "TRACE / HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n", 405],
    ["another base URL", "GET / HTTP/1.1\r\nHost: AUTHORITY\r\nBase-Url-Override: https://elsewhere.test\r\n\r\n", 403],
    ["a path that climbs", "GET /a/../../b HTTP/1.1\r\nHost: AUTHORITY\r\n\r\n", 400],
    ["a page of another site", "GET / HTTP/1.1\r\nHost: AUTHORITY\r\nOrigin: https://evil.example\r\n\r\n", 403],
    ["a link of another site", "GET / HTTP/1.1\r\nHost: AUTHORITY\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403],
  ])("%s inside of a tunnel", async (_, bytes, status) => {
    const seen = provider.seen.length;
    const text = await askRaw(await secure(), bytes.replaceAll("AUTHORITY", authority));
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(text).toContain("latchkey-error: ");
    expect(provider.seen).toHaveLength(seen);
  });

  it.each([
    ["a length beside chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN"],
    ["two lengths", "Content-Length: 0\r\nContent-Length: 6\r\n\r\nHIDDEN"],
    ["another coding", "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\nHIDDEN"],
    ["a coding with a blank", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nHIDDEN"],
    ["a folded line", "X-A: b\r\n Content-Length: 6\r\n\r\nHIDDEN"],
    ["a bare line feed", "X-A: b\nContent-Length: 0\r\n\r\nHIDDEN"],
  ])("a request with %s, and what it hides", async (_, rest) => {
    const hidden = `GET /hidden HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
    const seen = provider.seen.length;
    const client = await secure();
    client.write(`POST /smuggled HTTP/1.1\r\nHost: ${authority}\r\n${rest.replace("HIDDEN", hidden)}`, "latin1");
    let text = "";
    client.on("data", (bytes) => (text += bytes));
    await closed(client);
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(provider.seen.slice(seen).map(({ url }) => url)).toEqual([]);
  });

  it("another authority of an HTTP/2 request, and serves the next one", async () => {
    const client = await secure({ tls: { ALPNProtocols: ["h2"] } });
    const session = http2.connect(`https://${authority}`, { createConnection: () => client });
    const statusOf = async (headers: http2.OutgoingHttpHeaders) => {
      const stream = session.request(headers);
      const [answer] = await once(stream, "response");
      stream.resume().end();
      return answer[":status"];
    };
    expect(await statusOf({ ":path": "/", ":authority": "elsewhere.test" })).toBe(421);
    expect(await statusOf({ ":path": "/", ":authority": authority })).toBe(200);
    session.close();
  });

  it.each([
    "",
    "api.provider.test",
    "api.provider.test:0",
    "api.provider.test:65536",
    "https://api.provider.test:443",
    "ada@api.provider.test:443",
    "api.provider.test.:443",
    "127.1:443",
    "0x7f.0.0.1:443",
    "[::1:443",
    "api.provider.test:443/",
  ])("the target %j", async (target) => {
    const { status } = await sendConnect(sidecar.proxy, target);
    expect([400, 403]).toContain(status);
  });

  it("hosts that nobody admitted, without a certificate for them", async () => {
    const before = await certificates();
    for (const target of ["evil.example:443", "127.0.0.1:443", "[::1]:443", "10.0.0.1:443", `${apiHost}:1`]) {
      const { status, text } = await sendConnect(sidecar.proxy, target);
      expect([target, status]).toEqual([target, 403]);
      expect(text).toContain("host_not_allowed");
    }
    expect(await certificates()).toBe(before);
  });

  it("itself, at every listener", async () => {
    for (const address of [sidecar.proxy, sidecar.data, sidecar.control, sidecar.ops]) {
      const { port } = new URL(address);
      for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
        const { status, text } = await sendConnect(sidecar.proxy, `${host}:${port}`);
        expect([host, status]).toEqual([host, 403]);
        expect(text).toContain("is Latchkey itself");
      }
    }
  });

  it("private addresses of hosts that are passed on", async () => {
    for (const target of [`inside.test:${provider.port}`, "127.0.0.1:1"]) {
      const { status, text } = await sendConnect(sidecar.proxy, target);
      expect([target, status]).toEqual([target, 403]);
      expect(text).toContain("host_not_allowed");
    }
  });

  it("a name that has moved to a private address", async () => {
    isPrivate = true;
    const moving = `moving.test:${provider.port}`;
    const client = await openSecure(sidecar.proxy, moving, { ca: sidecar.ca });
    const text = await askRaw(client, `GET / HTTP/1.1\r\nHost: ${moving}\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1\.1 403 [\s\S]*latchkey-error: host_not_allowed/);
  });

  it.each(["http/1.1", "h2"])("a provider whose certificate is for another host (%s)", async (protocol) => {
    const seen = provider.seen.length;
    const misnamed = `misnamed.test:${provider.port}`;
    const client = await openSecure(sidecar.proxy, misnamed, { ca: sidecar.ca, tls: { ALPNProtocols: [protocol] } });
    const session = protocol === "h2" ? http2.connect(`https://${misnamed}`, { createConnection: () => client }) : null;
    if (session === null) {
      const text = await askRaw(client, `GET / HTTP/1.1\r\nHost: ${misnamed}\r\n\r\n`);
      expect(text).toMatch(/^HTTP\/1\.1 502 [\s\S]*latchkey-error: provider_untrusted/);
    } else {
      const answer = await streamed(session, "/", { headers: { ":authority": misnamed } });
      expect([answer.status, answer.headers["latchkey-error"]]).toEqual([502, "provider_untrusted"]);
      session.destroy();
    }
    expect(provider.seen).toHaveLength(seen);
  });

  it("nothing more than one host by a certificate, which signs nothing itself", async () => {
    const client = await secure();
    const shown = client.getPeerX509Certificate();
    expect([shown?.subjectAltName, shown?.ca]).toEqual([`DNS:${apiHost}`, false]);
    // RFC 5280, 4.2.1.12: for servers alone.
    expect(shown?.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
    for (const host of [otherHost, `a.${apiHost}`, apiHost.replace(/^[^.]+\./, "")]) {
      expect([host, shown?.checkHost(host)]).toEqual([host, undefined]);
    }
    client.destroy();
  });

  it("keys of other environments, control keys, and keys without the scope", async () => {
    const environments = sidecar.client(EnvironmentService);
    const { secret } = await environments.createKey({ environment: "other" });
    const other = await sendConnect(sidecar.proxy, authority, { authorization: `Bearer ${secret}` });
    expect(other.text).toMatch(/^HTTP\/1\.1 403 [\s\S]*host_not_allowed/);
    expect(other.text).not.toContain(`${apiHost},`);
    const control = await sendConnect(sidecar.proxy, authority, { authorization: `Bearer ${adminKey}` });
    expect(control.text).toMatch(/^HTTP\/1\.1 403 [\s\S]*missing_scope/);
  });

  it("a key that was revoked, in tunnels that are open", async () => {
    const environments = sidecar.client(EnvironmentService);
    const { key, secret } = await environments.createKey({ environment: "dev" });
    const client = await secure({ authorization: `Bearer ${secret}` });
    const ask = () => askRaw(client, `GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
    expect(await ask()).toContain("200 OK");
    await environments.revokeKey({ id: key?.id ?? "" });
    await expect.poll(ask).toMatch(/^HTTP\/1\.1 401 [\s\S]*unknown_key/);
  });

  it("an access session in tunnels that are passed on: from elsewhere, over its budget, and once it has ended", async () => {
    const sessions = sidecar.client(AccessSessionService);
    const target = `${otherHost}:${provider.port}`;
    const open = async (options: SessionOptions) => {
      const limits = { connections: [{ integration: "here", id: "ada" }] };
      const { token, session } = await sessions.createAccessSession({ environment: "dev", limits, ...options });
      return {
        id: session?.id ?? "",
        connect: () => sendConnect(sidecar.proxy, target, { authorization: `Bearer ${token}` }),
      };
    };
    const away = await open({ audience: { addresses: ["192.0.2.1"] } });
    expect((await away.connect()).text).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
    const once = await open({ budget: 1n });
    expect((await once.connect()).status).toBe(200);
    expect((await once.connect()).text).toMatch(/^HTTP\/1\.1 403 [\s\S]*not_in_session/);
    const ending = await open({});
    const { status, socket } = await ending.connect();
    expect(status).toBe(200);
    const client = tls.connect({ socket, servername: otherHost, rejectUnauthorized: false });
    client.on("error", () => {});
    expect(await askRaw(client, `GET /raw HTTP/1.1\r\nHost: ${target}\r\n\r\n`)).toContain("401");
    await sessions.endAccessSession({ environment: "dev", id: ending.id });
    await closed(client);
  });

  it("tunnels that are passed on, once their key was revoked", async () => {
    const environments = sidecar.client(EnvironmentService);
    const target = `${otherHost}:${provider.port}`;
    const open = async () => {
      const { key, secret } = await environments.createKey({ environment: "dev" });
      const { socket } = await sendConnect(sidecar.proxy, target, { authorization: `Bearer ${secret}` });
      const client = tls.connect({ socket, servername: otherHost, rejectUnauthorized: false });
      await once(
        client.on("error", () => {}),
        "secureConnect",
      );
      return { client, id: key?.id ?? "" };
    };
    const [revoked, kept] = [await open(), await open()];
    await environments.revokeKey({ id: revoked.id });
    await closed(revoked.client);
    expect(await askRaw(kept.client, `GET /raw HTTP/1.1\r\nHost: ${target}\r\n\r\n`)).toContain("401");
  });

  it("another name in a tunnel that is passed on, and passes on the right one", async () => {
    const target = `${otherHost}:${provider.port}`;
    const right = await sendConnect(sidecar.proxy, target);
    expect(right.status).toBe(200);
    // The provider's own certificate: nothing was looked at, and nothing added.
    const client = tls.connect({ socket: right.socket, servername: otherHost, rejectUnauthorized: false });
    await once(client, "secureConnect");
    expect(client.getPeerCertificate().issuer.CN).toBe("provider");
    expect(await askRaw(client, `GET /raw HTTP/1.1\r\nHost: ${target}\r\n\r\n`)).toContain("401");
    for (const bytes of [`GET / HTTP/1.1\r\nHost: ${target}\r\n\r\n`, "SSH-2.0-x\r\n"]) {
      const { socket } = await sendConnect(sidecar.proxy, target);
      socket.write(bytes);
      await closed(socket.resume());
    }
    const wrong = await sendConnect(sidecar.proxy, target);
    const fooled = tls.connect({ socket: wrong.socket, servername: apiHost, rejectUnauthorized: false });
    fooled.on("error", () => {});
    await closed(fooled);
  });

  it("nothing that clients do not send: half a head, and a tunnel that is left", async () => {
    const { socket } = await sendConnect(sidecar.proxy, authority);
    socket.destroy();
    const half = await secure();
    half.write("GET / HT");
    half.destroy();
    await sleep(0);
    expect(await askRaw(await secure(), `GET / HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)).toContain("200 OK");
  });
});

interface SessionOptions {
  readonly budget?: bigint;
  readonly audience?: { readonly addresses: string[] };
}

/** Resolves when a socket has closed, with or without an error, also if it had closed before. */
async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise((resolve) => socket.once("close", resolve));
}
