import { expect, it } from "vitest";
import { type ConnectProxy, startConnectProxy } from "../../support/peers/connect-proxy.ts";
import { startDns } from "../../support/peers/dns.ts";
import { apiKey, type RecordingProvider, startProvider, startProxied } from "../../support/peers/provider.ts";
import { call, faultOf } from "../../support/wire/proxy-call.ts";

const hosts = ["public.example.com", "private.example.com", "unknown.example.com", "metadata.google.internal", "db"];

async function startNaming(
  proxy: ConnectProxy,
  provider: RecordingProvider,
  env: Readonly<Record<string, string>> = {},
) {
  const { port } = provider;
  const resolve = await startDns({
    "public.example.com": () => ({ addresses: ["1.1.1.1"] }),
    "private.example.com": () => ({ addresses: ["10.1.2.3"] }),
    "metadata.google.internal": () => ({ addresses: ["169.254.169.254"] }),
    "unknown.example.com": () => ({ addresses: [] }),
    "listed.example.com": () => ({ addresses: ["127.0.0.1"] }),
  });
  const running = await startProxied(port, {
    resolve,
    provider: {
      proxy: {
        baseUrl: `https://listed.example.com:${port}`,
        hosts: [...hosts.map((host) => `${host}:${port}`), "127.0.0.1:1", "[::1]:1", "169.254.169.254"].map((host) => ({
          origin: `https://${host}`,
        })),
      },
    },
    env: {
      LATCHKEY_ALLOW_PRIVATE: `http://listed.example.com:${port}`,
      LATCHKEY_EGRESS_PROXY: `http://127.0.0.1:${proxy.port}`,
      LATCHKEY_EGRESS_NO_PROXY: "none",
      ...env,
    },
  });
  const ask = async (host?: string) => {
    const to = host === undefined ? {} : { "base-url-override": `https://${host}` };
    const answer = await call(`${running.data}/proxy/x`, { headers: { ...running.proxyHeaders, ...to } });
    return [answer.status, faultOf(answer)];
  };
  return { ask, at: (host: string) => ask(`${host}:${port}`) };
}

const targetsOf = ({ heads }: ConnectProxy) => heads.map((head) => /^CONNECT (\S+):\d+ /.exec(head)?.[1]);

it("checks the addresses of a name before the proxy gets the name", async () => {
  const [proxy, provider] = [await startConnectProxy({ "listed.example.com": "127.0.0.1" }), await startProvider()];
  const { ask, at } = await startNaming(proxy, provider);
  expect(await at("private.example.com")).toEqual([403, "host_not_allowed"]);
  expect(await at("metadata.google.internal")).toEqual([403, "host_not_allowed"]);
  expect(await at("unknown.example.com")).toEqual([502, "provider_unknown"]);
  expect(await ask("127.0.0.1:1")).toEqual([403, "host_not_allowed"]);
  expect(await ask("[::1]:1")).toEqual([403, "host_not_allowed"]);
  expect(proxy.heads).toEqual([]);
  expect(await ask()).toEqual([200, undefined]);
  // The proxy cannot reach it: it was asked, and nothing else was.
  proxy.answer = (client) => void client.end("HTTP/1.1 503 No\r\n\r\n");
  expect(await at("public.example.com")).toEqual([502, "provider_unreachable"]);
  expect(targetsOf(proxy)).toEqual(["listed.example.com", "public.example.com"]);
  expect(provider.received()).toContain(apiKey);
});

it("gives the proxy the checked address if names are pinned", async () => {
  const [proxy, provider] = [await startConnectProxy(), await startProvider()];
  const { ask, at } = await startNaming(proxy, provider, { LATCHKEY_EGRESS_RESOLVE: "pinned" });
  expect(await ask()).toEqual([200, undefined]);
  expect(provider.received()).toContain(`Host: listed.example.com:${provider.port}`);
  proxy.answer = (client) => void client.end("HTTP/1.1 503 No\r\n\r\n");
  expect(await at("public.example.com")).toEqual([502, "provider_unreachable"]);
  expect(await at("private.example.com")).toEqual([403, "host_not_allowed"]);
  expect(targetsOf(proxy)).toEqual(["127.0.0.1", "1.1.1.1"]);
});

it("asks no DNS if the proxy resolves names, and still refuses addresses and names of private networks", async () => {
  const proxy = await startConnectProxy({ "listed.example.com": "127.0.0.1" });
  const provider = await startProvider();
  const { ask, at } = await startNaming(proxy, provider, { LATCHKEY_EGRESS_RESOLVE: "proxy" });
  expect(await at("metadata.google.internal")).toEqual([403, "host_not_allowed"]);
  expect(await at("db")).toEqual([403, "host_not_allowed"]);
  expect(await ask("127.0.0.1:1")).toEqual([403, "host_not_allowed"]);
  expect(await ask("[::1]:1")).toEqual([403, "host_not_allowed"]);
  expect(await ask("169.254.169.254")).toEqual([403, "host_not_allowed"]);
  expect(proxy.heads).toEqual([]);
  expect(await ask()).toEqual([200, undefined]);
  // This name has an address for the proxy alone.
  proxy.answer = (client) => void client.end("HTTP/1.1 503 No\r\n\r\n");
  expect(await at("unknown.example.com")).toEqual([502, "provider_unreachable"]);
  expect(targetsOf(proxy)).toEqual(["listed.example.com", "unknown.example.com"]);
});
