import { expect, it } from "vitest";
import { apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";
import { secretKey } from "../../support/sidecar/harness.ts";

it("sends a request to the provider with the credentials attached, and its answer back", async () => {
  const provider = await startProvider();
  const { data, proxyHeaders } = await startProxied(provider.port);
  for (let i = 0; i < 3; i += 1) {
    const headers = { ...proxyHeaders, "x-api-key": "mine", "x-other": "kept" };
    const answer = await fetch(`${data}/proxy/drive/v3/files?pageSize=10`, { headers });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ line: "GET /drive/v3/files?pageSize=10 HTTP/1.1", body: "" });
  }
  const body = "x".repeat(300_000);
  const sent = await fetch(`${data}/proxy/upload`, { method: "POST", headers: proxyHeaders, body });
  expect(await sent.json()).toEqual({ line: "POST /upload HTTP/1.1", body });
  // One connection carried all requests.
  expect(provider.connections).toHaveLength(1);
  const [first] = provider.connections[0]?.requests() ?? [];
  expect(first?.fields).toContainEqual(["x-api-key", apiKey]);
  expect(first?.fields.filter(([name]) => name === "x-api-key")).toHaveLength(1);
  expect(first?.fields).toContainEqual(["x-other", "kept"]);
  expect(provider.received()).not.toContain(secretKey);
});
