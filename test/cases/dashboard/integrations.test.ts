import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";

const environment = "dev";
let sandbox: Sandbox | undefined;
const origin = () => sandbox?.origin ?? "";

const mcpServer = createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const message = Buffer.concat(parts).toString();
  if (request.url !== "/open" || message === "") mcpAnswer(request, response);
  else statefulAnswer(request, JSON.parse(message), response);
});
const mcpUrl = (path: string) => `http://localhost:${(mcpServer.address() as AddressInfo).port}${path}`;

/** A server of 2025-11-25: it has sessions, and answers in event streams. */
function statefulAnswer(request: IncomingMessage, message: { id?: number; method: string }, response: ServerResponse) {
  const { id, method } = message;
  const isKnown = request.headers["mcp-session-id"] === "s-1";
  const tools = [
    { name: "search", description: "Searches pages\u202e", annotations: { readOnlyHint: true }, inputSchema: {} },
    { name: "<b>", title: "Of a hostile server", inputSchema: {} },
  ];
  const results: Readonly<Record<string, object>> = {
    initialize: { protocolVersion: "2025-11-25", capabilities: {} },
    ...(isKnown && { "tools/list": { tools } }),
  };
  const result = results[method];
  const body = result === undefined ? { error: { code: -32_600, message: "no session" } } : { result };
  response.writeHead(result === undefined ? 400 : 200, {
    "content-type": "text/event-stream",
    ...(method === "initialize" && { "mcp-session-id": "s-1" }),
  });
  response.end(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, ...body })}\n\n`);
}

/** An open MCP server at `/open`; at `/closed` one whose authorization server registers no clients. */
function mcpAnswer({ url = "" }: IncomingMessage, response: ServerResponse): void {
  const base = mcpUrl("");
  const answers: Readonly<Record<string, object>> = {
    "/.well-known/oauth-protected-resource/closed": { resource: mcpUrl("/closed"), authorization_servers: [base] },
    "/.well-known/oauth-authorization-server": {
      issuer: base,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      code_challenge_methods_supported: ["S256"],
    },
  };
  const answer = answers[url];
  const isClosed = url === "/closed";
  response.writeHead(isClosed ? 401 : answer === undefined ? 404 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify(answer ?? {}));
}

beforeAll(() => new Promise<void>((resolve) => void mcpServer.listen(0, "127.0.0.1", resolve)));
afterAll(() => mcpServer.close());
beforeAll(async () => {
  sandbox = await startSandbox({ behaviour: { consent: "allow" } });
});
const dashboard = dashboardOfFile(() => ({
  LATCHKEY_ALLOW_PRIVATE: `${allowPrivateFor(origin())},${mcpUrl("")}`,
}));
beforeAll(async () => {
  const providers = dashboard.sidecar.client(ProviderService);
  const known = describeProviders(origin()).filter(({ name }) => name === "sandbox-calendar");
  for (const one of known) await providers.createProvider({ provider: readProvider(one) });
});
afterAll(() => sandbox?.close());

const integrations = () => dashboard.sidecar.client(IntegrationService);
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

it("creates an integration from the catalog, and connects an account through the popup", {
  timeout: 120_000,
}, async () => {
  const page = await dashboard.open("/integrations?env=dev");
  // What others create appears by itself.
  await page.getByRole("heading", { name: "No integrations yet" }).waitFor();
  await integrations().createIntegration({ integration: { environment, key: "other", provider: "slack" } });
  await page.getByRole("row", { name: /Slack other No OAuth client 0/ }).waitFor();
  await page.getByRole("link", { name: "Add integration" }).click();
  await page.getByLabel("Name or category").fill("sandbox");
  await page.getByRole("link", { name: /Sandbox: calendar/ }).click();
  await page.getByLabel("Key", { exact: true }).fill("cal");
  const redirect = page.getByRole("complementary").getByText("/oauth/callback");
  await redirect.waitFor();
  const planned = await redirect.innerText();

  await button(page, "Create integration").click();
  await page.getByText("Enter the client ID", { exact: true }).waitFor();
  await page.getByRole("checkbox", { name: /test credentials/ }).check();
  await page.reload();
  // What was written is still there; test credentials are chosen again.
  await expect.poll(() => page.getByLabel("Key", { exact: true }).inputValue()).toBe("cal");
  await page.getByRole("checkbox", { name: /test credentials/ }).check();
  await button(page, "Create integration").click();
  await page.getByRole("heading", { name: /Sandbox: calendar Ready/ }).waitFor();
  const made = await integrations().getIntegration({ environment, key: "cal" });
  expect([made.integration?.oauth?.clientId, made.integration?.callbackUrl]).toEqual(["sandbox", planned]);

  const opening = page.waitForEvent("popup");
  await button(page, "Test").click();
  const popup = await opening;
  await popup
    .getByRole("link", { name: /Continue|Connect/ })
    .or(popup.getByRole("button", { name: /Continue|Connect/ }))
    .first()
    .click();
  const panel = page.getByRole("region", { name: "Test" });
  await panel.getByText("It works:").waitFor({ timeout: 30_000 });
  expect(await panel.innerText()).toContain("calendar");

  await page.reload();
  await page.getByRole("table", { name: "Newest connections" }).getByText("Healthy").waitFor();
  await button(page, "Settings").click();
  await button(page, "Delete integration").click();
  await page.getByRole("dialog", { name: "cal has 1 connection" }).waitFor();
});

it("shows what another changed before it saves, replaces secrets and never shows them", {
  timeout: 30_000,
}, async () => {
  const secret = "s3cret-canary";
  const app = { oauth: { clientId: "abc" }, secrets: { clientSecret: `first-${secret}` } };
  await integrations().createIntegration({
    integration: { environment, key: "team", provider: "sandbox-calendar", ...app },
  });
  const page = await dashboard.open("/integrations/team?env=dev&tab=settings");
  await page.getByLabel("Name for people").fill("Our team");
  const scopes = ["calendar", "email"];
  await page.reload();
  // What was written is still there, but for the secret.
  await expect.poll(() => page.getByLabel("Name for people").inputValue()).toBe("Our team");
  await button(page, "Replace Client secret").click();
  await page.getByLabel("New client secret").fill(`second-${secret}`);
  await integrations().updateIntegration({
    integration: { environment, key: "team", oauth: { scopes } },
    updateMask: { paths: ["oauth.scopes"] },
  });
  await button(page, "Save changes").click();
  const dialog = page.getByRole("dialog", { name: "Changed meanwhile" });
  const row = dialog.getByRole("row", { name: /Scopes/ });
  await row.waitFor();
  expect(await row.innerText()).toContain("calendar email");
  await button(page, "Save my changes over these").click();
  await dialog.waitFor({ state: "detached" });
  const { integration } = await integrations().getIntegration({ environment, key: "team", includeSecrets: true });
  expect(integration).toMatchObject({ displayName: "Our team", oauth: { clientId: "abc", scopes } });
  expect(integration?.secrets?.clientSecret).toBe(`second-${secret}`);
  await page.getByText("Everything is saved").waitFor();
  expect(await page.content()).not.toContain(secret);
});

it("adds an MCP server by its URL, and says what a server without registration needs", {
  timeout: 30_000,
}, async () => {
  const page = await dashboard.open("/catalog?env=dev");
  await page.getByRole("link", { name: "Add an MCP server" }).click();
  await button(page, "Add server").click();
  await page.getByText("Enter the URL, such as").waitFor();
  await page.getByLabel("URL of the server").fill("https://mcp.notion.com/mcp");
  expect(await page.getByLabel("Key", { exact: true }).inputValue()).toBe("notion-mcp");
  await page.getByLabel("URL of the server").fill(mcpUrl("/closed"));
  await page.getByLabel("Key", { exact: true }).fill("pages-mcp");
  await button(page, "Add server").click();
  // The address to register, and what was written, stay.
  await page.getByRole("alert").getByText("/oauth/callback").waitFor();
  await page.getByLabel("URL of the server").fill(mcpUrl("/open"));
  await button(page, "Add server").click();
  await page.getByRole("heading", { name: /Ready/ }).waitFor();
  const made = await integrations().getIntegration({ environment, key: "pages-mcp" });
  expect(made.integration?.mcpUrl).toBe(mcpUrl("/open"));

  await button(page, "Tools").click();
  await page.getByRole("heading", { name: "No account is connected" }).waitFor();
  const body = { provider_config_key: "pages-mcp", connection_id: "ada", credentials: { type: "NONE" } };
  await dashboard.sidecar.rest("POST", "/connections", { body });
  await page.reload();
  await button(page, "Read the tools").click();
  await page.getByRole("row", { name: /search Searches pages\\u\{202e\} Only reads 0/ }).waitFor();
  await page.getByRole("row", { name: /<b> Of a hostile server/ }).waitFor();
});

it("describes a custom provider with mistakes at their lines", async () => {
  const page = await dashboard.open("/custom-provider?env=dev");
  await page.getByLabel("Begin with").selectOption({ label: "API key" });
  const area = page.getByLabel("Description of the provider");
  const text = await area.inputValue();
  await area.fill(text.replace("header:", "heade:").replace("name: acme", "name: slack"));
  await page.getByText("2 mistakes").waitFor();
  const mistake = page.getByRole("button", { name: /Line 5 api_key\.heade unknown key\. Did you mean "header"/ });
  await mistake.click();
  const at = await area.evaluate((element: { selectionStart: number }) => element.selectionStart);
  expect(await area.inputValue().then((value) => value.slice(0, at).split("\n").length)).toBe(5);
  expect(await button(page, "Create provider").getAttribute("aria-disabled")).toBe("true");
  await area.fill(text.replace("name: acme", "name: my-acme"));
  await page.getByText("No mistakes").waitFor();
  await button(page, "Create provider").click();
  await page.getByRole("heading", { name: "Add Acme" }).waitFor();

  await page.getByRole("link", { name: "Show the description" }).click();
  await expect.poll(() => area.inputValue()).toContain("display_name: Acme\n");
  await area.fill((await area.inputValue()).replace("display_name: Acme", "display_name: Acme of ours"));
  const providers = dashboard.sidecar.client(ProviderService);
  const { provider } = await providers.getProvider({ name: "my-acme" });
  if (provider !== undefined)
    await providers.updateProvider({ provider: { ...provider, docsUrl: "https://acme.example/other" } });
  await page.getByText("No mistakes").waitFor();
  await button(page, "Save changes").click();
  const lines = page.getByRole("dialog", { name: "Changed meanwhile" }).getByRole("region", { name: "Differences" });
  await lines.getByText("docs_url: https://acme.example/other").waitFor();
  expect(await lines.innerText()).toContain("display_name: Acme of ours");
  await button(page, "Save my text over this").click();
  await page.getByRole("heading", { name: /Acme of ours/ }).waitFor();
});

it("shows the branding before it is saved, and end users see it afterwards", async () => {
  const page = await dashboard.open("/branding?env=dev");
  await page.getByLabel("Name of your application").fill("Northwind");
  await page.getByLabel("Color of buttons").fill("#aa3377");
  await page.getByText("Northwind wants to connect your Calendar").first().waitFor();
  const environments = dashboard.sidecar.client(EnvironmentService);
  await environments.updateEnvironment({
    environment: { name: "dev", branding: { supportUrl: "https://acme.example/help" } },
    updateMask: { paths: ["branding.support_url"] },
  });
  await button(page, "Save branding").click();
  const dialog = page.getByRole("dialog", { name: "Changed meanwhile" });
  await dialog.getByRole("row", { name: /Help for users empty https:\/\/acme\.example\/help unchanged/ }).waitFor();
  await button(page, "Save my changes over these").click();
  await page.getByText("Saved the branding").waitFor();
  const { environment: stored } = await environments.getEnvironment({ name: "dev" });
  expect(stored?.branding?.supportUrl).toBe("https://acme.example/help");
  expect(stored?.branding).toMatchObject({ name: "Northwind", accentColor: "#aa3377" });
  const opening = page.waitForEvent("popup");
  await button(page, "Open the connect page").click();
  const hosted = await opening;
  await hosted
    .getByText(/Northwind/)
    .first()
    .waitFor();
});
