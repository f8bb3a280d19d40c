import { readFileSync } from "node:fs";
import { createSecureContext, TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { established, startConnectProxy } from "../../support/peers/connect-proxy.ts";
import { echo, startHttp2Provider } from "../../support/peers/http2-provider.ts";
import { apiKey, ok, type ProxiedSidecar, startProvider, startProxied } from "../../support/peers/provider.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";
import { type Authority, type Certificate, createAuthority, pem } from "../control-plane/certificates.ts";

const authority = async (name: string) => createAuthority(await temporaryFolder(), name);
const text = (file: string) => readFileSync(file, "utf8");
const serving = ({ cert, key }: Certificate) => ({ cert: pem(cert), key: pem(key) });

interface Behind {
  readonly port: number;
  readonly proxy: string;
  readonly providerCa?: Authority;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

const startBehind = ({ port, proxy, providerCa, env = {}, files = {} }: Behind): Promise<ProxiedSidecar> =>
  startProxied(port, {
    isTls: true,
    env: {
      LATCHKEY_EGRESS_PROXY: proxy,
      LATCHKEY_EGRESS_NO_PROXY: "none",
      ...(providerCa === undefined ? {} : { LATCHKEY_PROVIDER_CA: "/ca.pem" }),
      ...env,
    },
    files: { ...files, ...(providerCa === undefined ? {} : { "/ca.pem": text(providerCa.cert) }) },
  });

const codesOf = async ({ data, proxyHeaders: headers }: ProxiedSidecar) => {
  const answer = await call(`${data}/proxy/x`, { headers });
  return [answer.status, faultOf(answer)];
};

describe.skipIf(lacks("openssl"))("TLS through an egress proxy", () => {
  it("verifies the provider, and sends nothing if something else answers", async () => {
    const [ca, stranger] = [await authority("ca"), await authority("stranger")];
    const provider = await startProvider(ok, serving(ca.issue("here", { names: "IP:127.0.0.1" })));
    const foreign = await startProvider(ok, serving(stranger.issue("here", { names: "IP:127.0.0.1" })));
    const proxy = await startConnectProxy();
    const behind = { proxy: `http://127.0.0.1:${proxy.port}`, providerCa: ca };
    expect(await codesOf(await startBehind({ ...behind, port: provider.port }))).toEqual([200, undefined]);
    const running = await startBehind({ ...behind, port: foreign.port });
    expect(await codesOf(running)).toEqual([502, "provider_untrusted"]);
    proxy.answer = (client) => void client.write(`${established}hello`);
    expect(await codesOf(running)).toEqual([502, "egress_proxy_failed"]);
    proxy.answer = (client) => {
      client.write(established);
      client.once("data", () => client.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    };
    expect(await codesOf(running)).toEqual([502, "provider_untrusted"]);
    proxy.answer = (client) => void client.end(established);
    expect(await codesOf(running)).toEqual([502, "provider_closed"]);
    expect(foreign.received()).toBe("");
    // The connection to the first provider is kept; those that failed are closed.
    await expect.poll(() => proxy.open()).toBe(1);
    expect(proxy.heads.join("")).not.toContain(apiKey);
  });

  it("speaks HTTP/2 with the provider over TLS with the proxy, which wants a client certificate", async () => {
    const [ca, proxyCa] = [await authority("ca"), await authority("proxy-ca")];
    const provider = await startHttp2Provider(echo, { tls: serving(ca.issue("here", { names: "IP:127.0.0.1" })) });
    const own = proxyCa.issue("latchkey", { names: "DNS:latchkey.test" });
    const proxy = await startConnectProxy(
      {},
      {
        ...serving(proxyCa.issue("proxy", { names: "IP:127.0.0.1" })),
        ca: pem(proxyCa.cert),
        requestCert: true,
        rejectUnauthorized: true,
      },
    );
    const behind = { port: provider.port, proxy: `https://127.0.0.1:${proxy.port}`, providerCa: ca };
    const files = { "/proxy-ca.pem": text(proxyCa.cert), "/own.pem": text(own.cert), "/own.key": text(own.key) };
    const trusting = { LATCHKEY_EGRESS_CA: "/proxy-ca.pem" };
    const showing = {
      ...trusting,
      LATCHKEY_EGRESS_CLIENT_CERT: "/own.pem",
      LATCHKEY_EGRESS_CLIENT_KEY: "/own.key",
    };
    const running = await startBehind({ ...behind, files, env: showing });
    const session = await openSession(running.data);
    const body = "b".repeat(300_000);
    for (let i = 0; i < 2; i += 1) {
      const answer = await streamed(session, "/proxy/up", { headers: running.proxyHeaders, body });
      expect([answer.status, JSON.parse(answer.body).body === body]).toEqual([200, true]);
    }
    expect([proxy.heads.length, provider.sessions.length]).toEqual([1, 1]);

    expect(await codesOf(await startBehind({ ...behind, files, env: trusting }))).toEqual([502, "egress_proxy_failed"]);
    const untrusting = await startBehind(behind);
    const answer = await call(`${untrusting.data}/proxy/x`, { headers: untrusting.proxyHeaders });
    expect([answer.status, faultOf(answer)]).toEqual([502, "egress_proxy_failed"]);
    expect(answer.body).toContain("no trusted connection to the egress proxy");
    expect(provider.sessions).toHaveLength(1);
  });

  it("trusts the authority of a proxy that reads TLS, and only through the proxy", async () => {
    const [ca, readers] = [await authority("ca"), await authority("readers")];
    const provider = await startProvider(ok, serving(ca.issue("here", { names: "IP:127.0.0.1" })));
    const forged = serving(readers.issue("forged", { names: "IP:127.0.0.1" }));
    const secureContext = createSecureContext(forged);
    let read = "";
    const proxy = await startConnectProxy();
    proxy.answer = (client) => {
      client.write(established);
      const inside = new TLSSocket(client, { isServer: true, secureContext });
      inside.on("error", () => {});
      inside.on("data", (bytes: Buffer) => {
        read += bytes.toString("latin1");
        inside.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
      });
    };
    const behind = { port: provider.port, proxy: `http://127.0.0.1:${proxy.port}` };
    const files = { "/readers.pem": text(readers.cert) };
    const env = { LATCHKEY_EGRESS_INTERCEPT_CA: "/readers.pem" };
    expect(await codesOf(await startBehind(behind))).toEqual([502, "provider_untrusted"]);
    expect(read).toBe("");
    expect(await codesOf(await startBehind({ ...behind, files, env }))).toEqual([200, undefined]);
    expect(read).toContain("GET /x HTTP/1.1");

    // The same certificate is not trusted on a direct connection.
    const impostor = await startProvider(ok, forged);
    const direct = { ...env, LATCHKEY_EGRESS_NO_PROXY: "127.0.0.1" };
    const running = await startBehind({ ...behind, port: impostor.port, files, env: direct });
    expect(await codesOf(running)).toEqual([502, "provider_untrusted"]);
    expect(impostor.received()).toBe("");
  });
});
