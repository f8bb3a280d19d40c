import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { Forward_State as State, WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const environment = "dev";
const integration = "sandbox-calendar";

/** The application, for all tests of the file. */
function applicationOfFile() {
  const seen: { readonly id: string; readonly body: string }[] = [];
  const application = { seen, status: 200, url: "" };
  const server = createServer((request: IncomingMessage, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      seen.push({ id: String(request.headers["webhook-id"]), body });
      response.writeHead(application.status, { "retry-after": "3600" }).end("answer of the application");
    });
  });
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    application.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return application;
}

describe.skipIf(lacks("chromium"))("webhooks in the dashboard", () => {
  const application = applicationOfFile();
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  const dashboard = dashboardOfFile(() => ({
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox?.origin ?? ""),
    LATCHKEY_FORWARD_URL: application.url,
  }));
  afterAll(() => sandbox?.close());

  beforeAll(async () => {
    if (sandbox === undefined) throw new Error("the sandbox has not started");
    const { sidecar } = dashboard;
    const provider = describeProviders(sandbox.origin)
      .map((description) => readProvider(description))
      .find(({ name }) => name === integration);
    if (provider === undefined) throw new Error("the sandbox describes no calendar");
    await sidecar.client(ProviderService).createProvider({ provider });
    await sidecar.client(IntegrationService).createIntegration({
      integration: {
        ...{ environment, key: integration, provider: integration, oauth: { clientId: "sandbox" } },
        secrets: { clientSecret: "sandbox-secret" },
      },
    });
    const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant({ user: "ada@example.com" });
    await sidecar.client(ConnectionService).importConnection({
      connection: {
        ...{ environment, integration, id: "ada", metadata: { email: "ada@example.com" } },
        credentials: { kind: { case: "oauth2", value: { accessToken, refreshToken } } },
      },
    });
  });

  beforeEach(() => {
    application.status = 200;
  });

  /** A webhook of the provider, by its public URL. */
  async function receive(person: string, number: number): Promise<void> {
    const { body } = await dashboard.sidecar.rest("GET", `/integrations/${integration}?include=webhook`);
    const headers = {
      "x-cal-resource-uri": `https://calendar.example/v3/calendars/${person}/events?alt=json`,
      "x-cal-channel-id": "elsewhere",
      "x-cal-message-number": String(number),
      "x-cal-resource-state": "exists",
    };
    const { pathname } = new URL(body.data.webhook_url);
    const sent = { person, number: 12345678901234567890n };
    const text = JSON.stringify(sent, (_, value) => (typeof value === "bigint" ? "N" : value)).replace(
      '"N"',
      "12345678901234567890",
    );
    const answer = await fetch(`${dashboard.sidecar.data}${pathname}`, { method: "POST", headers, body: text });
    expect(answer.status).toBe(200);
  }
  async function open(path: string): Promise<Page> {
    const page = await dashboard.open(path);
    page.setDefaultTimeout(6_000);
    return page;
  }
  const rows = (page: Page, label: string) => page.getByRole("table", { name: label }).locator("tbody tr");
  const dialogOf = (page: Page) => page.getByRole("dialog");

  it("takes a webhook from its receipt over a failure to its replay", async () => {
    application.status = 500;
    const page = await open("/webhooks");
    await page.getByRole("heading", { name: "No webhooks yet" }).waitFor();
    await page.getByRole("button", { name: "Live", exact: true }).waitFor();
    await receive("ada@example.com", 1);
    // It appears by itself, with its delivery.
    const row = rows(page, "Webhooks").first();
    await row.getByText("Retrying").waitFor();
    expect(await row.innerText()).toMatch(/elsewhere 1(.|\s)*ada/);
    await row.getByRole("link").click();
    await page.getByText(/Rule \d matched/).waitFor();
    await page.getByText("Rules of sandbox-calendar, in order").click();
    await page.locator('li[aria-current="true"]').getByText("connection_config.emailAddressHash").waitFor();
    await page.getByText("another client made its channel").waitFor();
    const attempts = page.getByRole("table", { name: "Attempts" });
    await attempts.getByText("500").waitFor();
    await attempts.getByText("answer of the application").waitFor();
    // A number that JavaScript cannot hold is shown as it came.
    await page.getByText('"number": 12345678901234567890').waitFor();
    await page.getByRole("button", { name: /^Headers/ }).click();
    await page.getByRole("rowheader", { name: "x-cal-channel-id" }).waitFor();
    expect(page.url()).toContain("view=headers");
    application.status = 200;
    const before = application.seen.length;
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByText("Delivered", { exact: true }).waitFor();
    expect(application.seen.length).toBe(before + 1);
    expect(application.seen.at(-1)?.id).toBe(application.seen[0]?.id);
  });

  it("files a webhook without a connection, and replays by filter after the count", async () => {
    await receive("nobody@example.com", 2);
    const page = await open("/webhooks?show=unmatched");
    await rows(page, "Webhooks").first().getByRole("link").click();
    await page.getByRole("button", { name: "File to a connection" }).click();
    await dialogOf(page).getByLabel("Connection of sandbox-calendar").fill("ad");
    await dialogOf(page).getByRole("radio", { name: "ada" }).check();
    await dialogOf(page).getByRole("button", { name: "File to ada" }).click();
    await page.getByText("Filed by hand, by admin-key.").waitFor();
    await page.getByText("for ada").waitFor();
    expect(JSON.parse(application.seen.at(-1)?.body ?? "")).toMatchObject({ connectionId: "ada" });

    await page.goto(`${dashboard.sidecar.control}/ui/webhooks/deliveries?state=delivered&integration=${integration}`);
    await page.getByRole("button", { name: "Replay…" }).click();
    const before = application.seen.length;
    const verb = dialogOf(page).getByRole("button", { name: /^Replay \d+ deliveries$/ });
    await verb.waitFor();
    const count = Number(/\d+/.exec(await verb.innerText())?.[0]);
    expect(count).toBeGreaterThanOrEqual(3);
    expect(application.seen).toHaveLength(before);
    await verb.click();
    await dialogOf(page).waitFor({ state: "detached" });
    await expect.poll(() => application.seen.length).toBe(before + count);
    // The application knows a delivery by its id.
    await page.goto(`${dashboard.sidecar.control}/ui/webhooks/deliveries`);
    await page.getByRole("searchbox", { name: "webhook-id" }).fill(application.seen[0]?.id ?? "");
    await expect.poll(() => rows(page, "Deliveries").count()).toBe(1);
    await page.getByRole("searchbox", { name: "webhook-id" }).fill("msg_none");
    await page.getByRole("heading", { name: "No delivery fits the filters" }).waitFor();
  });

  it("pauses a destination with a reason, tests it, cancels what waits, and resumes", async () => {
    const page = await open("/destinations");
    const card = page.getByRole("region", { name: `Destination ${application.url}` });
    await card.getByRole("button", { name: "Pause…" }).click();
    await dialogOf(page).getByLabel("Reason").fill("database <b>upgrade</b>");
    await dialogOf(page).getByRole("button", { name: "Pause" }).click();
    await card.getByText("by admin-key: database <b>upgrade</b>").waitFor();
    await card.getByRole("button", { name: "Send a test" }).click();
    await dialogOf(page).getByText("The application accepted the message.").waitFor();
    expect(application.seen.at(-1)?.id).toMatch(/^test_/);
    await dialogOf(page).getByRole("button", { name: "Close", exact: true }).last().click();
    await receive("ada@example.com", 3);
    await card.getByRole("link", { name: /^1, the oldest/ }).click();
    await rows(page, "Deliveries").getByText("Paused").waitFor();
    await page.getByRole("button", { name: "Cancel waiting…" }).click();
    await dialogOf(page).getByRole("button", { name: "Cancel 1 delivery" }).click();
    await page.getByRole("heading", { name: "No delivery fits the filters" }).waitFor();
    await page.goBack();
    await card.getByRole("button", { name: "Resume" }).click();
    await card.getByRole("button", { name: "Pause…" }).waitFor();
    const filter = { states: [State.CANCELLED] };
    const { forwards } = await dashboard.sidecar.client(WebhookService).listForwards({ environment, filter });
    expect(forwards).toHaveLength(1);
  });

  it("shows what arrived while it was paused", async () => {
    const page = await open("/webhooks");
    const live = page.getByRole("button", { name: "Live", exact: true });
    await live.click();
    await receive("ada@example.com", 7);
    await page.getByRole("button", { name: "Paused" }).click();
    await live.waitFor();
    await rows(page, "Webhooks").getByText("elsewhere 7").waitFor();
  });

  it("explains a webhook while it is typed, and sends it as a test", async () => {
    const page = await open(`/webhooks/send?integration=${integration}`);
    await page.getByText("No rule finds a connection.").waitFor();
    await page.getByLabel("Headers").fill("no colon");
    await page.getByText("Write each header as name: value.").waitFor();
    await page
      .getByLabel("Headers")
      .fill("x-cal-resource-uri: https://calendar.example/v3/calendars/ada@example.com/events");
    await page.getByText(/Rule \d matches/).waitFor();
    await page.getByRole("button", { name: "Send test webhook" }).click();
    await page.getByText("A test webhook, sent by hand.").waitFor();
    // What differs from the one before is shown line by line.
    await page.getByRole("button", { name: "Compare…" }).click();
    await dialogOf(page).getByRole("link").first().click();
    const headers = page.getByRole("region", { name: "Differences of the headers" });
    await headers.getByText("x-cal-channel-id: elsewhere").waitFor();
    expect(await headers.getByTitle("Added").count()).toBeGreaterThan(0);
  });

  it("shows channels as bars, renews and stops them", async () => {
    const connection = { environment, integration, id: "ada" };
    await dashboard.sidecar.client(ChannelService).createChannel({ connection });
    const page = await open("/channels");
    const row = page.getByRole("list", { name: "Channels" }).getByRole("listitem").first();
    await row.getByRole("img", { name: /^1 channel in time\. Active, renews in/ }).waitFor();
    await row.getByRole("link").click();
    await dialogOf(page).getByRole("button", { name: "Renew now" }).click();
    await row.getByRole("img", { name: /^2 channels in time\. Active/ }).waitFor();
    await dialogOf(page).getByRole("button", { name: "Stop…" }).click();
    await dialogOf(page).getByRole("button", { name: "Stop", exact: true }).click();
    await row.getByText("Stopped", { exact: true }).waitFor();
  });
});
