import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { apiKey, startProvider, startProxied } from "../../support/peers/provider.ts";

const ref = { environment: "dev", integration: "here", id: "ada" };

it("explains what a request would send, without sending it or showing a secret", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port, {
    provider: { proxy: { baseUrl: `https://127.0.0.1:${provider.port}/base`, headers: { "x-version": "7" } } },
  });
  const answer = await running.client(ConnectionService).explainRequest({
    ref,
    method: "GET",
    path: "/files?pageSize=10",
    headerNames: ["Accept", "Cookie", "X-Api-Key", "Authorization"],
  });
  expect(answer).toMatchObject({
    url: `https://127.0.0.1:${provider.port}/base/files?pageSize=10`,
    provider: "here",
    credentialsKind: "apiKey",
    headerNames: ["Host", "Accept", "x-version", "x-api-key", "Via"],
    injected: ["x-api-key"],
    dropped: ["Cookie", "X-Api-Key", "Authorization"],
  });
  expect(JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
    apiKey,
  );
  expect(provider.connections).toHaveLength(0);
});

it("explains why a request would be refused", async () => {
  const provider = await startProvider();
  const client = (await startProxied(provider.port)).client(ConnectionService);
  expect((await client.explainRequest({ ref, path: "/../x" })).problem?.code).toBe("invalid_path");
  const elsewhere = await client.explainRequest({ ref, path: "/", baseUrlOverride: "https://evil.example" });
  expect(elsewhere.problem?.code).toBe("host_not_allowed");
  await expect(client.explainRequest({ ref: { ...ref, id: "nobody" }, path: "/" })).rejects.toThrow(
    /nobody|no such|no connection/,
  );
});
