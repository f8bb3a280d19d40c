import grpc from "@grpc/grpc-js";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { startTestEdge } from "../../support/edges/test-edge.ts";
import { startCollector } from "../../support/peers/collector.ts";
import { opens, says, startConnectProxy } from "../../support/peers/connect-proxy.ts";
import { grpcCaller, metadataOf, startGrpcProvider } from "../../support/peers/grpc-provider.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { createAuthority, pem } from "../control-plane/certificates.ts";
import { edgeKey } from "../edges/test-edge.ts";

const through = (port: number) => ({
  LATCHKEY_EGRESS_PROXY: `http://127.0.0.1:${port}`,
  LATCHKEY_EGRESS_NO_PROXY: "none",
});

it("lets an edge reach providers through the proxy alone, and brokers directly", async () => {
  const proxy = await startConnectProxy();
  const provider = await startProvider();
  const broker = await startProxied(provider.port);
  const edge = await startTestEdge({
    brokers: [broker.control],
    env: {
      LATCHKEY_BROKERS_KEY: (await edgeKey(broker)).secret,
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${provider.port}`,
      ...through(proxy.port),
    },
  });
  const ask = async () => {
    const answer = await call(`${edge.data}/proxy/x`, { headers: { ...broker.proxyHeaders, connection: "close" } });
    return [answer.status, faultOf(answer)];
  };
  expect(await ask()).toEqual([200, undefined]);
  expect(proxy.heads).toEqual([expect.stringContaining(`CONNECT 127.0.0.1:${provider.port} `)]);
  proxy.close();
  expect(await ask()).toEqual([502, "egress_proxy_failed"]);
  expect(provider.connections).toHaveLength(1);
  // The broker itself has no proxy.
  expect((await call(`${broker.data}/proxy/x`, { headers: broker.proxyHeaders })).status).toBe(200);
});

it("carries gRPC without TLS", async () => {
  const proxy = await startConnectProxy();
  const provider = await startGrpcProvider();
  const running = await startProxied(provider.port, { env: through(proxy.port) });
  const { say } = grpcCaller(running.data);
  const said = await say({ text: "hello" }, metadataOf(running.proxyHeaders));
  expect([said.answer, said.status.code, proxy.heads.length]).toEqual([{ text: "hello" }, grpc.status.OK, 1]);
  proxy.answer = says("HTTP/1.1 403 Forbidden\r\n\r\n");
  const refused = await startProxied(provider.port, { env: through(proxy.port) });
  const { say: sayAgain } = grpcCaller(refused.data);
  const { status } = await sayAgain({ text: "hello" }, metadataOf(refused.proxyHeaders));
  expect([status.code, status.metadata.get("latchkey-error")]).toEqual([
    grpc.status.PERMISSION_DENIED,
    ["egress_proxy_refused"],
  ]);
});

it.skipIf(lacks("openssl"))("sends spans through the proxy, with the collector's own authority", async () => {
  const ca = createAuthority(await temporaryFolder(), "ca");
  const own = ca.issue("collector", { names: "IP:127.0.0.1" });
  const collector = await startCollector(() => ({ status: 200 }), { tls: { cert: pem(own.cert), key: pem(own.key) } });
  const proxy = await startConnectProxy();
  const provider = await startProvider();
  const running = await startProxied(provider.port, {
    env: { ...collector.env, OTEL_EXPORTER_OTLP_CERTIFICATE: "/ca.pem", ...through(proxy.port) },
    files: { "/ca.pem": String(pem(ca.cert)) },
  });
  expect((await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders })).status).toBe(200);
  await expect.poll(() => collector.spans().length).toBeGreaterThan(0);
  expect(proxy.heads.filter((head) => head.includes(`:${collector.port} `))).toHaveLength(1);
});

it("has doctor report a proxy that cannot be used, until it can", async () => {
  const proxy = await startConnectProxy();
  const provider = await startProvider();
  const running = await startProxied(provider.port, { env: through(proxy.port) });
  const findings = async () => {
    const terminal = memoryTerminal({
      env: { LATCHKEY_CONTROL: running.control, LATCHKEY_KEY: adminKey, LATCHKEY_DATA: running.data },
    });
    const code = await runCli(["doctor", "--json"], terminal, []);
    const all = terminal
      .out()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { status: string; message: string; remedy?: string });
    return { code, found: all.filter(({ message }) => message.includes("egress")) };
  };
  const ask = async () => (await call(`${running.data}/proxy/x`, { headers: running.proxyHeaders })).status;
  expect((await findings()).found).toEqual([]);

  proxy.answer = says("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
  expect(await ask()).toBe(502);
  const wrong = {
    code: 1,
    found: [
      expect.objectContaining({
        status: "fail",
        message: "nothing leaves Latchkey: the egress proxy does not accept Latchkey's user and password (407)",
        remedy: expect.stringContaining("LATCHKEY_EGRESS_PROXY"),
      }),
    ],
  };
  expect(await findings()).toEqual(wrong);
  proxy.answer = opens;
  expect(await ask()).toBe(200);
  expect((await findings()).found).toEqual([]);

  const closed = await startConnectProxy();
  closed.close();
  const unreachable = await startProxied(provider.port, { env: through(closed.port) });
  const terminal = memoryTerminal({
    env: { LATCHKEY_CONTROL: unreachable.control, LATCHKEY_KEY: adminKey, LATCHKEY_DATA: unreachable.data },
  });
  expect(await runCli(["doctor", "--json"], terminal, [])).toBe(1);
  expect(terminal.out()).toContain("the egress proxy cannot be reached: ECONNREFUSED");
  expect(unreachable.logged.join("")).toContain("the egress proxy cannot be used");
});
