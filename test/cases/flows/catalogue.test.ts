import { expect, it } from "vitest";
import { startProvider } from "../../support/peers/provider.ts";
import { secretKey, startTestSidecar } from "../../support/sidecar/harness.ts";
import { call } from "../../support/wire/proxy-call.ts";

it("calls a Salesforce instance at the connection's host, and no host that only looks similar", async () => {
  const provider = await startProvider();
  const instance = `https://acme.my.salesforce.com:${provider.port}`;
  const running = await startTestSidecar({
    env: { LATCHKEY_ALLOW_PRIVATE: `http://acme.my.salesforce.com:${provider.port}` },
    resolve: async () => [{ address: "127.0.0.1", family: 4 }],
  });
  const made = await running.rest("POST", "/integrations", { body: { unique_key: "crm", provider: "salesforce" } });
  expect(made.status).toBe(200);
  const importTo = (instance_url: string) =>
    running.rest("POST", "/connections", {
      body: {
        provider_config_key: "crm",
        connection_id: "ada",
        credentials: { type: "OAUTH2", access_token: "token-of-ada" },
        connection_config: { instance_url },
      },
    });
  expect((await importTo(`https://acme.my.salesforce.com.evil.test:${provider.port}`)).status).toBe(400);
  expect((await importTo(`${instance}/`)).status).toBe(201);

  const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": "crm", "connection-id": "ada" };
  const answer = await call(`${running.data}/proxy/services/data/v62.0/limits`, { headers });
  expect(answer.status).toBe(200);
  const [request] = provider.connections[0]?.requests() ?? [];
  expect(request?.line).toBe("GET /services/data/v62.0/limits HTTP/1.1");
  expect(request?.fields).toContainEqual(["authorization", "Bearer token-of-ada"]);
  expect(request?.fields).toContainEqual(["host", `acme.my.salesforce.com:${provider.port}`]);

  const elsewhere = { ...headers, "base-url-override": "https://evil.my.salesforce.com" };
  expect((await call(`${running.data}/proxy/x`, { headers: elsewhere })).status).toBe(403);
});
