import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { TLSSocket, TlsOptions } from "node:tls";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { type Answering, apiKey, ok, startProvider, startProxied } from "../../support/peers/provider.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";
import { type Authority, createAuthority, pem } from "../control-plane/certificates.ts";

type Options = NonNullable<Parameters<typeof startProxied>[1]>;

/** Reports whether the TLS session was resumed, and ends the connection: the next request needs a new handshake. */
const onceOnly: Answering = (_, socket) => {
  const said = (socket as TLSSocket).isSessionReused() ? "again" : "first";
  socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n${said}`);
};

describe.skipIf(lacks("openssl"))("with certificates of one's own", () => {
  afterEach(() => {
    delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  });

  async function authority(): Promise<Authority> {
    return createAuthority(await temporaryFolder(), "authority");
  }

  const trusting = ({ cert }: Authority, options: Options = {}): Options => ({
    isTls: true,
    ...options,
    files: { "/ca.pem": pem(cert).toString() },
    env: { LATCHKEY_PROVIDER_CA: "/ca.pem", ...options.env },
  });

  const serving = (own: { readonly cert: string; readonly key: string }, more: TlsOptions = {}): TlsOptions => ({
    cert: pem(own.cert),
    key: pem(own.key),
    ...more,
  });

  it("trusts the authorities that the operator names, and resumes sessions with a provider", async () => {
    const ca = await authority();
    const provider = await startProvider(onceOnly, serving(ca.issue("here", { names: "IP:127.0.0.1" })));
    const { data, proxyHeaders: headers } = await startProxied(provider.port, trusting(ca));
    for (const body of ["first", "again", "again"]) {
      expect(await call(`${data}/proxy/x`, { headers })).toMatchObject({ status: 200, body });
    }
  });

  it("keeps a connection under TLS too, and large answers whole", async () => {
    const ca = await authority();
    const large = "0123456789abcdef".repeat(256 * 1024);
    const answer: Answering = (request, socket, count) => {
      if (request.line.includes("/large"))
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large.length}\r\n\r\n${large}`);
      else ok(request, socket, count);
    };
    const provider = await startProvider(answer, serving(ca.issue("here", { names: "IP:127.0.0.1" })));
    const { data, proxyHeaders: headers } = await startProxied(provider.port, trusting(ca));
    for (let i = 0; i < 2; i += 1) {
      const { status, body } = await call(`${data}/proxy/large`, { headers });
      expect([status, body === large]).toEqual([200, true]);
    }
    const body = "b".repeat(500_000);
    const sent = await call(`${data}/proxy/up`, { method: "POST", headers, body });
    expect(JSON.parse(sent.body)).toEqual({ line: "POST /up HTTP/1.1", body });
    expect(provider.connections).toHaveLength(1);
  });

  it("P26: sends no byte of a request before TLS is verified, and reports what is wrong", async () => {
    const ca = await authority();
    const stranger = createAuthority(await temporaryFolder(), "stranger");
    const old: TlsOptions = { minVersion: "TLSv1", maxVersion: "TLSv1", ciphers: "DEFAULT@SECLEVEL=0" };
    const providers: Record<string, TlsOptions> = {
      expired: serving(ca.issue("expired", { names: "IP:127.0.0.1", days: -1 })),
      "of another name": serving(ca.issue("other", { names: "DNS:api.example.test" })),
      "of another address": serving(ca.issue("address", { names: "IP:127.0.0.2" })),
      "self-signed": serving(stranger),
      "of an unknown authority": serving(stranger.issue("here", { names: "IP:127.0.0.1" })),
      "of TLS 1.0": serving(ca.issue("old", { names: "IP:127.0.0.1" }), old),
    };
    // Set by mistake or for convenience: latchkey ignores it.
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    const messages = new Set<string>();
    for (const [what, options] of Object.entries(providers)) {
      const provider = await startProvider(ok, options);
      const { data, proxyHeaders, stop } = await startProxied(provider.port, trusting(ca));
      const answer = await call(`${data}/proxy/x`, { method: "POST", headers: proxyHeaders, body: "the body" });
      expect([answer.status, faultOf(answer)], what).toEqual([502, "provider_untrusted"]);
      expect(provider.received(), what).toBe("");
      messages.add(JSON.parse(answer.body).error.message);
      await stop();
    }
    // "Of another name" and "of another address" are one mistake; a stranger's are two.
    expect([...messages].sort()).toEqual([
      expect.stringContaining("CERT_HAS_EXPIRED"),
      expect.stringMatching(/DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN/),
      expect.stringContaining("ERR_SSL"),
      expect.stringContaining("ERR_TLS_CERT_ALTNAME_INVALID"),
      expect.stringContaining("UNABLE_TO_"),
    ]);
  });

  it("P26: sends nothing in plain HTTP to a provider that requires TLS", async () => {
    let received = "";
    const plain = createServer((socket) => {
      socket.setEncoding("latin1").on("data", (chunk: string) => {
        received += chunk;
        socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
      });
    });
    await once(plain.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void plain.close());
    const { data, proxyHeaders: headers } = await startProxied((plain.address() as AddressInfo).port, { isTls: true });
    const answer = await call(`${data}/proxy/x`, { headers });
    expect([answer.status, faultOf(answer)]).toEqual([502, "provider_untrusted"]);
    // A greeting of TLS, and nothing else.
    expect(received.charCodeAt(0)).toBe(22);
    expect(received).not.toMatch(new RegExp(`${apiKey}|GET /`));
  });

  it("shows each connection's own certificate, and shares no connection between two", async () => {
    const ca = await authority();
    const seen: string[] = [];
    const provider = await startProvider(
      (request, socket, count) => {
        seen.push(`${(socket as TLSSocket).getPeerCertificate().subject.CN} ${request.line.split(" ")[1]}`);
        ok(request, socket, count);
      },
      serving(ca.issue("here", { names: "IP:127.0.0.1" }), { requestCert: true, ca: pem(ca.cert) }),
    );
    const own = (name: string) => {
      const { cert, key } = ca.issue(name, { names: `DNS:${name}` });
      return { certificate: pem(cert).toString(), privateKey: pem(key).toString() };
    };
    const bare = { auth: { case: "none", value: {} } };
    const running = await startProxied(provider.port, trusting(ca, { provider: bare, credentials: { type: "NONE" } }));
    await running.client(ProviderService).createProvider({
      provider: {
        name: "certified",
        auth: { case: "clientCertificate", value: {} },
        proxy: { baseUrl: `https://127.0.0.1:${provider.port}` },
      },
    });
    await running.rest("POST", "/integrations", { body: { unique_key: "certified", provider: "certified" } });
    for (const id of ["ada", "bob"]) {
      await running.client(ConnectionService).importConnection({
        connection: {
          environment: "dev",
          integration: "certified",
          id,
          credentials: { kind: { case: "clientCertificate", value: own(id) } },
        },
      });
    }
    const ask = (id: string, i: number) =>
      call(`${running.data}/proxy/${id}-${i}`, {
        headers: { ...running.proxyHeaders, "provider-config-key": "certified", "connection-id": id },
      });
    for (let i = 0; i < 4; i += 1) expect((await ask(i % 2 === 0 ? "ada" : "bob", i)).status).toBe(200);
    await Promise.all(Array.from({ length: 20 }, (_, i) => ask(i % 2 === 0 ? "ada" : "bob", i)));
    expect(seen).toHaveLength(24);
    for (const one of seen) expect(one).toMatch(/^(ada \/ada-|bob \/bob-)/);
    // Without a client certificate the provider closes the connection.
    const answer = await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders });
    expect([answer.status, faultOf(answer)]).toEqual([502, "provider_closed"]);
    expect(seen).toHaveLength(24);
  });
});
