import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { holdPolicy, patient } from "../../support/approvals/holding.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

let provider: Server;
const received: string[] = [];

beforeAll(async () => {
  provider = createServer((request: IncomingMessage, response) => {
    received.push(`${request.method} ${request.url}`);
    response.setHeader("content-type", "application/json");
    // Enough of an MCP server to be set up.
    response.end(request.url === "/mcp" ? '{"jsonrpc":"2.0","id":1,"result":{}}' : "{}");
  });
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
});
afterAll(() => provider.close());

const port = () => (provider.address() as AddressInfo).port;
// After the provider, whose port it needs.
const dashboard = dashboardOfFile(() => ({ LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port()}` }));

beforeAll(async () => {
  const { client, rest } = dashboard.sidecar;
  await client(ProviderService).createProvider({
    provider: {
      name: "bank",
      auth: { case: "apiKey", value: { header: "x-api-key" } },
      proxy: { baseUrl: `https://127.0.0.1:${port()}` },
    },
  });
  await rest("POST", "/integrations", { body: { unique_key: "bank", provider: "bank" } });
  const credentials = { type: "API_KEY", apiKey: "the-key-of-ada" };
  await rest("POST", "/connections", { body: { provider_config_key: "bank", connection_id: "ada", credentials } });
  const mcp = { unique_key: "notes-mcp", mcp_url: `http://127.0.0.1:${port()}/mcp` };
  await rest("POST", "/integrations", { body: mcp });
  const none = { provider_config_key: "notes-mcp", connection_id: "ada", credentials: { type: "NONE" } };
  await rest("POST", "/connections", { body: none });
  await client(PolicyService).createPolicy({ policy: holdPolicy });
});

const pay = (to: string) =>
  dashboard.sidecar.rest("POST", `/proxy/v1/payouts?to=${to}`, {
    body: { amount: 1200, currency: "EUR", note: "invoice 7\u202e" },
    headers: { "provider-config-key": "bank", "connection-id": "ada", "x-team": "red" },
  });

it.skipIf(lacks("chromium"))(
  "shows what is asked, by which caller and until when, and takes the answer",
  async () => {
    await expect.poll(async () => (await pay("bob")).status, patient).toBe(202);
    expect((await pay("eve")).status).toBe(202);
    const page = await dashboard.open("/approvals?env=dev");
    const rows = page.getByRole("table", { name: "Approvals" }).locator("tbody tr");
    await expect.poll(() => rows.count(), patient).toBe(2);
    expect(await rows.first().textContent()).toMatch(/POST 127\.0\.0\.1:\d+\/v1\/payoutssecret-key · bank\/ada/);
    await rows.filter({ hasText: "payouts" }).last().getByRole("link").click();
    const drawer = page.getByRole("dialog", { name: "Held request" });
    await drawer.getByText('"amount": 1200').waitFor();
    const shown = (await drawer.textContent()) ?? "";
    expect(shown).toContain("to=bob");
    expect(shown).toContain("x-team: red");
    expect(shown).toContain("people look at changes");
    // Characters that change the direction of text are shown as what they are.
    expect(shown).toContain("\\u{202e}");
    expect(shown).not.toContain("the-key-of-ada");
    await drawer.getByLabel("Reason").fill("as discussed");
    await drawer.getByRole("button", { name: "Approve" }).click();
    await drawer.getByText("as discussed").waitFor();
    expect((await pay("bob")).status).toBe(200);
    expect(received.filter((line) => line.includes("/v1/"))).toEqual(["POST /v1/payouts?to=bob"]);
    await drawer.getByRole("button", { name: "Close" }).click();
    await expect.poll(() => rows.count(), patient).toBe(1);
    await rows.first().getByRole("link").click();
    await drawer.getByRole("button", { name: "Deny" }).click();
    await expect.poll(async () => (await pay("eve")).status, patient).toBe(403);
    await drawer.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: /All of the last/ }).click();
    await expect.poll(() => rows.count(), patient).toBe(2);
    const states = (await rows.allTextContents()).map((text) => /Sent|Denied/.exec(text)?.[0]);
    expect(states.sort()).toEqual(["Denied", "Sent"]);
  },
  120_000,
);

it.skipIf(lacks("chromium"))(
  "shows what a session may do, its held calls as they come, and ends it",
  async () => {
    const { client, rest } = dashboard.sidecar;
    const { token } = await client(AccessSessionService, secretKey).createAccessSession({
      limits: { connections: [{ integration: "notes-mcp", id: "ada" }], tools: ["create_*"] },
      budget: 40n,
      label: "Triage <12>",
    });
    const call = (tool: string) =>
      rest("POST", "/mcp/notes-mcp", {
        key: token,
        body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool, arguments: { title: "Plan" } } },
        headers: { accept: "application/json, text/event-stream" },
      });
    const page = await dashboard.open("/approvals?env=dev");
    await page.getByRole("button", { name: "Live" }).waitFor();
    await expect.poll(async () => (await call("create_page")).body.error.data.code, patient).toBe("approval_required");
    // Nothing asks again by itself: the stream has brought it.
    await page
      .getByRole("row", { name: /create_page Triage <12> · notes-mcp\/ada/ })
      .getByRole("link")
      .click();
    const drawer = page.getByRole("dialog", { name: "Held request" });
    await drawer.getByLabel("arguments", { exact: true }).getByText('"title": "Plan"').waitFor();

    await drawer.getByRole("link", { name: "Triage <12>" }).click();
    await page.getByRole("heading", { name: /^Triage <12>/ }).waitFor();
    const permission = page.getByRole("article", { name: "notes-mcp/ada" });
    expect(await permission.innerText()).toMatch(/MCP server\s+Healthy\s+Tools\s+create_\*\s+Methods\s+All/);
    await page.getByRole("row", { name: /changes people look at changes Hold/ }).waitFor();
    await page.getByRole("table", { name: "Approvals" }).getByText("create_page").waitFor();
    const facts = page.getByRole("complementary", { name: "About the session" });
    expect(await facts.innerText()).toMatch(/of 40 left/);
    expect(await page.content()).not.toContain(token);
    await page.getByRole("button", { name: "End session" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "End session" }).click();
    await facts.getByText("Ended by").waitFor();
    await expect.poll(async () => (await call("create_page")).status, patient).toBe(401);

    await page.getByRole("link", { name: "Access sessions" }).first().click();
    await page.getByRole("heading", { name: "No session is active" }).waitFor();
    await page.getByRole("button", { name: /Ended in the last/ }).click();
    await page.getByRole("row", { name: /Triage <12> notes-mcp\/ada Ended secret-key/ }).waitFor();
  },
  120_000,
);
