import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { foreignClient } from "../cases/control-plane/foreign.ts";
import { secretKey } from "../support/sidecar/harness.ts";
import type { Running } from "../support/sidecar/process.ts";

/** A provider that takes its time, so that something is always under way. */
export async function startSlowProvider(afterMs = 20): Promise<number> {
  const server = http.createServer((request, response) => {
    request.resume();
    request.on("end", () => setTimeout(() => response.end('{"here":true}'), afterMs));
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Creates what is called: a provider, an integration, a connection. */
export async function fill({ running, port }: { readonly running: Running; readonly port: number }): Promise<void> {
  const control = foreignClient(running.address("control"));
  await control.unary("ProviderService/CreateProvider", {
    provider: {
      name: "here",
      api_key: { header: "x-api-key" },
      proxy: { base_url: `https://127.0.0.1:${port}` },
    },
  });
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  for (const [path, body] of [
    ["/integrations", { unique_key: "here", provider: "here" }],
    [
      "/connections",
      { provider_config_key: "here", connection_id: "ada", credentials: { type: "API_KEY", apiKey: "key-of-ada" } },
    ],
  ] as const) {
    const made = await fetch(`${running.address("data")}${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    if (!made.ok) throw new Error(`${path}: ${await made.text()}`);
  }
}
