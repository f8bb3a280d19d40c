import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import {
  type ConnectAnswering,
  type ConnectProxy,
  established,
  opens,
  says,
  startConnectProxy,
} from "../../support/peers/connect-proxy.ts";
import { apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";

/** A sidecar whose one provider is reached without TLS, and only through a proxy. */
async function startBehind(proxy: ConnectProxy, env: Readonly<Record<string, string>> = {}) {
  const provider = await startProvider();
  const running = await startProxied(provider.port, {
    files: { "/impatient.yaml": "proxy: { connect_ms: 300 }" },
    env: {
      LATCHKEY_EGRESS_PROXY: `http://ada:p%40ss@127.0.0.1:${proxy.port}`,
      LATCHKEY_EGRESS_NO_PROXY: "none",
      ...env,
    },
  });
  const ask = async () => {
    const answer = await call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, connection: "close" } });
    const error = faultOf(answer) === undefined ? undefined : JSON.parse(answer.body).error;
    return { status: answer.status, code: faultOf(answer), message: error?.message as string | undefined };
  };
  return { ...running, provider, ask };
}

const byteByByte: ConnectAnswering = async (client, open) => {
  const origin = await open();
  client.setNoDelay(true);
  for (const byte of established) {
    client.write(byte);
    await new Promise(setImmediate);
  }
  client.pipe(origin).pipe(client);
};

it("sends a proxy one CONNECT with the user and the password, and the request only after its answer", async () => {
  const proxy = await startConnectProxy();
  const { ask, provider, metric } = await startBehind(proxy);
  const { port } = provider;
  proxy.answer = async (client, open) => {
    // Whatever came before the answer would be here.
    await sleep(20);
    expect(client.readableLength).toBe(0);
    await opens(client, open);
  };
  expect(await ask()).toMatchObject({ status: 200 });
  expect(proxy.heads).toEqual([
    expect.stringMatching(
      new RegExp(
        `^CONNECT 127\\.0\\.0\\.1:${port} HTTP/1\\.1\\r\\nHost: 127\\.0\\.0\\.1:${port}\\r\\nUser-Agent: latchkey/[^\\r]+\\r\\nProxy-Authorization: Basic ${Buffer.from("ada:p@ss").toString("base64")}\\r\\n\\r\\n$`,
      ),
    ),
  ]);
  expect(provider.received()).toContain(apiKey);
  expect(provider.received()).not.toMatch(/proxy-authorization/i);
  expect(await metric('latchkey_egress_proxy_connections_total{outcome="opened"}')).toBe(1);
});

it("reuses a connection through the proxy", async () => {
  const proxy = await startConnectProxy();
  const { data, proxyHeaders: headers, provider } = await startBehind(proxy);
  for (let i = 0; i < 3; i += 1) expect((await call(`${data}/proxy/${i}`, { headers })).status).toBe(200);
  expect([proxy.heads.length, provider.connections.length]).toEqual([1, 1]);
});

it("relays large bodies both ways", async () => {
  const large = "a".repeat(8 * 1024 * 1024);
  const provider = await startProvider(({ body }, socket) =>
    socket.write(`HTTP/1.1 200 OK\r\nX-Got: ${body.length}\r\nContent-Length: ${large.length}\r\n\r\n${large}`),
  );
  const proxy = await startConnectProxy();
  const running = await startProxied(provider.port, {
    env: { LATCHKEY_EGRESS_PROXY: `http://127.0.0.1:${proxy.port}`, LATCHKEY_EGRESS_NO_PROXY: "none" },
  });
  const body = "b".repeat(1024 * 1024);
  const answer = await call(`${running.data}/proxy/x`, { method: "POST", headers: running.proxyHeaders, body });
  expect([answer.status, answer.body === large, answer.fields.find(([name]) => name === "x-got")?.[1]]).toEqual([
    200,
    true,
    String(body.length),
  ]);
});

it("says whose fault it is, and never dials directly", async () => {
  const proxy = await startConnectProxy();
  const { ask, provider, metric } = await startBehind(proxy);
  const outcomes: Readonly<Record<string, readonly [ConnectAnswering, number, string, RegExp]>> = {
    "a proxy that wants other credentials": [
      says('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="x"\r\n\r\n'),
      ...[502, "egress_proxy_failed", /user and password/],
    ],
    "a proxy that forbids the host": [
      says("HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!"),
      ...[502, "egress_proxy_refused", /refuses connections to 127\.0\.0\.1:\d+ \(403\)/],
    ],
    "a proxy that redirects": [
      says("HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n"),
      ...[502, "egress_proxy_refused", /302/],
    ],
    "a host that the proxy cannot reach": [
      says("HTTP/1.1 503 Service Unavailable\r\n\r\n"),
      ...[502, "provider_unreachable", /the egress proxy could not reach .* \(503\)/],
    ],
    "a host that the proxy cannot reach in time": [
      says("HTTP/1.1 504 Gateway Timeout\r\n\r\n"),
      ...[504, "provider_timeout", /in time \(504\)/],
    ],
    "a proxy that speaks another protocol": [
      says("SSH-2.0-OpenSSH_9.2\r\n"),
      ...[502, "egress_proxy_failed", /not valid HTTP/],
    ],
    "an answer that could be read in two ways": [
      says("HTTP/1.1 200 OK\r\nX: y\n\nHTTP/1.1 200 OK\r\n\r\n"),
      ...[502, "egress_proxy_failed", /not valid HTTP/],
    ],
    "an interim answer": [says("HTTP/1.1 100 Continue\r\n\r\n"), ...[502, "egress_proxy_failed", /not valid HTTP/]],
    "an answer without end": [
      (client) => void client.write(`HTTP/1.1 200 OK\r\n${"X-Filler: y\r\n".repeat(2_000)}`),
      ...[502, "egress_proxy_failed", /not valid HTTP/],
    ],
    "a proxy that hangs up": [(client) => void client.end(), ...[502, "egress_proxy_failed", /without an answer/]],
    "a proxy that resets": [(client) => void client.resetAndDestroy(), ...[502, "egress_proxy_failed", /ECONNRESET/]],
    "a tunnel that closes at once": [says(established), ...[502, "provider_closed", /./]],
    "bytes before a request": [
      says(`${established}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi`),
      ...[502, "egress_proxy_failed", /more than its answer/],
    ],
  } as const;
  for (const [what, [answer, status, code, message]] of Object.entries(outcomes)) {
    proxy.answer = answer;
    expect(await ask(), what).toEqual({ status, code, message: expect.stringMatching(message) });
  }
  proxy.close();
  expect(await ask()).toEqual({
    ...{ status: 502, code: "egress_proxy_failed" },
    message: "the egress proxy cannot be reached: ECONNREFUSED",
  });
  expect(provider.connections).toHaveLength(0);
  const count = (outcome: string) => metric(`latchkey_egress_proxy_connections_total{outcome="${outcome}"}`);
  expect(await Promise.all(["unauthorized", "refused", "failed", "unreachable"].map(count))).toEqual([1, 2, 2, 1]);
});

it("waits for a proxy as long as for a provider", async () => {
  const proxy = await startConnectProxy();
  const { ask, provider, metric } = await startBehind(proxy, { LATCHKEY_CONFIG: "/impatient.yaml" });
  for (const text of ["", "HTTP/1.1 20"]) {
    proxy.answer = (client) => void client.write(text);
    expect(await ask()).toEqual({
      ...{ status: 502, code: "egress_proxy_failed" },
      message: expect.stringMatching(/did not answer CONNECT|did not accept a connection in time/),
    });
  }
  expect(provider.connections).toHaveLength(0);
  const outcomes = ["no_answer", "unreachable"].map((outcome) => `{outcome="${outcome}"}`);
  const counts = outcomes.map(
    async (labels) => (await metric(`latchkey_egress_proxy_connections_total${labels}`)) ?? 0,
  );
  expect((await Promise.all(counts)).reduce((sum, one) => sum + one)).toBe(2);
});

it("reads an answer that comes byte by byte, and works again after a failure", async () => {
  const proxy = await startConnectProxy();
  const { ask, logged } = await startBehind(proxy);
  proxy.answer = says("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
  expect((await ask()).code).toBe("egress_proxy_failed");
  proxy.answer = byteByByte;
  expect(await ask()).toMatchObject({ status: 200 });
  expect(logged.filter((line) => line.includes("egress proxy works again"))).toHaveLength(1);
  expect(logged.join("")).not.toMatch(/p@ss|p%40ss/);
});

it("repeats a request for a caller that wants it, once the proxy answers", async () => {
  const proxy = await startConnectProxy();
  const { data, proxyHeaders, provider } = await startBehind(proxy);
  proxy.answer = (client) => {
    proxy.answer = opens;
    client.destroy();
  };
  const answer = await call(`${data}/proxy/x`, { headers: { ...proxyHeaders, retries: "2" } });
  expect([answer.status, proxy.heads.length, provider.connections.length]).toEqual([200, 2, 1]);
});

it("fails without a direct attempt when the proxy's own name has no address", async () => {
  const provider = await startProvider();
  const { data, proxyHeaders: headers } = await startProxied(provider.port, {
    env: { LATCHKEY_EGRESS_PROXY: "http://proxy.corp.example:3128", LATCHKEY_EGRESS_NO_PROXY: "none" },
    resolve: async () => {
      throw Object.assign(new Error("no such name"), { code: "ENOTFOUND" });
    },
  });
  const answer = await call(`${data}/proxy/x`, { headers });
  expect([answer.status, faultOf(answer)]).toEqual([502, "egress_proxy_failed"]);
  expect(answer.body).toContain("the egress proxy cannot be reached: ENOTFOUND");
  expect(provider.connections).toHaveLength(0);
});

it("dials directly what the operator lists, and this machine by default", async () => {
  const proxy = await startConnectProxy();
  const provider = await startProvider();
  const env = { LATCHKEY_EGRESS_PROXY: `http://127.0.0.1:${proxy.port}` };
  for (const more of [{}, { LATCHKEY_EGRESS_NO_PROXY: `127.0.0.0/30,127.0.0.1:${provider.port}` }]) {
    const { data, proxyHeaders: headers, stop } = await startProxied(provider.port, { env: { ...env, ...more } });
    expect((await call(`${data}/proxy/x`, { headers })).status).toBe(200);
    await stop();
  }
  expect([proxy.heads.length, provider.connections.length]).toEqual([0, 2]);
});
