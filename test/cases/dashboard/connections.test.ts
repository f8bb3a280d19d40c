import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const environment = "dev";
const files = "sandbox-files";
const many = 600;
const idOf = (i: number) => `user-${String(i).padStart(4, "0")}`;

describe.skipIf(lacks("chromium"))("the pages of connections", () => {
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  const dashboard = dashboardOfFile(() => ({ LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox?.origin ?? "") }));
  afterAll(() => sandbox?.close());
  const connections = () => dashboard.sidecar.client(ConnectionService);
  const keyed = (id: string, team = "red") => ({
    ...{ environment, integration: "keyed", id },
    credentials: { kind: { case: "apiKey" as const, value: { apiKey: `key-of-${id}` } } },
    tags: { tags: { team } },
  });

  beforeAll(async () => {
    const { client } = dashboard.sidecar;
    for (const description of describeProviders(sandbox?.origin ?? "").filter(({ name }) => name === files)) {
      await client(ProviderService).createProvider({ provider: readProvider(description) });
    }
    const integrations = client(IntegrationService);
    await integrations.createIntegration({ integration: { environment, key: "keyed", provider: "example-api-key" } });
    const own = { oauth: { clientId: "sandbox" }, secrets: { clientSecret: "sandbox-secret" } };
    await integrations.createIntegration({ integration: { environment, key: files, provider: files, ...own } });
    await connections().batchImportConnections({
      connections: Array.from({ length: many }, (_, i) => keyed(idOf(i))),
    });
    await breakGrant();
  });

  /** A connection that has not chosen one of its files, at a provider that wants one. */
  async function importUndecided(): Promise<void> {
    const { client } = dashboard.sidecar;
    const name = "choosing";
    const [described] = describeProviders(sandbox?.origin ?? "").filter((one) => one.name === files);
    const choice = {
      name: "folder",
      title: "Folder",
      request: { path: "/drive/v3/files" },
      items: "files",
      label: "name",
    };
    const rules = {
      connection_fields: [{ name: "folderId", automatic: true }],
      choices: [{ ...choice, connection_config: { folderId: "id" } }],
    };
    await client(ProviderService).createProvider({ provider: readProvider({ ...described, ...rules, name }) });
    await client(IntegrationService).createIntegration({ integration: { environment, key: name, provider: name } });
    const { access_token: accessToken = "" } = sandbox?.grant({ user: "ada@example.com" }) ?? {};
    const credentials = { kind: { case: "oauth2" as const, value: { accessToken } } };
    await connections().importConnection({ connection: { environment, integration: name, id: "ada", credentials } });
  }

  /** A connection of Bob, whose refresh the provider refuses. */
  async function breakGrant(): Promise<void> {
    if (sandbox === undefined) throw new Error("the sandbox has not started");
    const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant({ user: "bob@example.com" });
    const ref = { environment, integration: files, id: "broken" };
    const credentials = { kind: { case: "oauth2" as const, value: { accessToken, refreshToken } } };
    await connections().importConnection({ connection: { ...ref, credentials, metadata: { plan: "free", seats: 1 } } });
    const refusal = { kind: "error" as const, status: 400, error: "invalid_grant", headers: {}, times: 1 };
    sandbox.behave({ answers: { token: [refusal] } });
    await connections()
      .refreshConnection({ ref })
      .catch(() => {});
  }

  async function open(path: string): Promise<Page> {
    const page = await dashboard.open(path);
    page.setDefaultTimeout(8_000);
    return page;
  }
  const rowsOf = (page: Page) => page.locator(".row-table tbody tr.linked");
  const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name, exact: true });

  it("scrolls through a long list with few rows in the page, and keeps filters in the address", async () => {
    const page = await open("/connections");
    await page.getByText(`${(many + 1).toLocaleString("en")} connections, newest first`).waitFor();
    expect(await rowsOf(page).first().innerText()).toContain("broken");
    await rowsOf(page)
      .nth(1)
      .getByText(idOf(many - 1))
      .waitFor();
    // To the end, as fast as rows arrive.
    await expect
      .poll(
        async () => {
          await page.evaluate("scrollTo(0, document.body.scrollHeight)");
          return rowsOf(page).last().innerText();
        },
        { timeout: 30_000, interval: 30 },
      )
      .toContain(idOf(0));
    expect(await page.locator(".row-table tbody tr").count()).toBeLessThan(100);
    await page.evaluate("scrollTo(0, 0)");
    await rowsOf(page).first().getByText("broken").waitFor();

    await button(page, /Needs reconnect/).click();
    await page.getByText("1 connection, newest first").waitFor();
    expect(page.url()).toContain("state=reauthorization_required");
    await page.reload();
    await page.getByText("1 connection, newest first").waitFor();
    await button(page, /^Invalid grant/).click();
    await page.getByText("1 connection, newest first").waitFor();
    await button(page, /^All/).click();
    await page.getByText("No connection matches").or(rowsOf(page).first()).waitFor();
    await page.getByRole("searchbox").fill("user-9999");
    await expect.poll(() => rowsOf(page).count()).toBe(0);
    await button(page, "Clear the filters").click();
    await page.getByRole("searchbox").fill("user-012");
    await expect.poll(() => rowsOf(page).count()).toBe(10);
  });

  it("changes tags of chosen connections, makes reconnect links, and deletes once the count is typed", async () => {
    const page = await open("/connections?q=user-004&match=prefix");
    await expect.poll(() => rowsOf(page).count()).toBe(10);
    for (const i of [40, 41, 42]) await page.getByLabel(`Choose ${idOf(i)}`).check();
    await button(page, "Change tags").click();
    await page.getByLabel("Set").fill("plan=pro");
    await page.getByLabel("Remove").fill("team");
    await page.getByRole("dialog").getByRole("button", { name: "Change tags" }).click();
    await page.getByText("3 of 3").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    const { connection } = await connections().getConnection({
      ref: { environment, integration: "keyed", id: idOf(41) },
    });
    expect(connection?.tags).toEqual({ plan: "pro" });

    for (const i of [40, 41]) await page.getByLabel(`Choose ${idOf(i)}`).check();
    await button(page, "Reconnect links").click();
    await button(page, "Make 2 links").click();
    await expect.poll(() => page.locator(".link-list li").count()).toBe(2);
    await page.keyboard.press("Escape");
    await button(page, "Delete").click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete 2 connections" });
    expect(await confirm.getAttribute("aria-disabled")).toBe("true");
    await page.getByLabel("Type 2 to confirm").fill("2");
    await confirm.click();
    await expect.poll(() => rowsOf(page).count()).toBe(8);
  });

  it("follows changes in place and announces new connections without moving rows", async () => {
    const page = await open("/connections");
    const second = rowsOf(page).nth(1);
    await second.getByText(idOf(many - 1)).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    await connections().importConnection({ connection: keyed("newcomer") });
    await connections().deleteConnection({ ref: { environment, integration: "keyed", id: idOf(many - 1) } });
    await button(page, "Show 1 new connection").waitFor();
    await second.getByText("Deleted").waitFor();
    await button(page, "Show 1 new connection").click();
    await rowsOf(page).first().getByText("newcomer").waitFor();
  });

  it("tells why a connection is dead with every cause, and merges metadata that someone else changed", async () => {
    const page = await open(`/connections/${files}/broken`);
    await page.getByText("The provider no longer accepts the refresh token.").waitFor();
    await page.getByText("The end user, or an administrator, revoked the access").first().waitFor();
    await page.getByLabel("Show", { exact: true }).selectOption("problems");
    await page.getByRole("link", { name: "A refresh failed" }).waitFor();
    await page.getByText(/^\d possible causes$/).click();

    await button(page, "Edit metadata").click();
    const editor = page.getByLabel("Metadata as a JSON object");
    await editor.fill('{"plan": "pro", "seats": 1}');
    const ref = { environment, integration: files, id: "broken" };
    await connections().updateMetadata({ ref, metadata: { seats: 5 } });
    await button(page, "Save metadata").click();
    await expect
      .poll(async () => (await connections().getConnection({ ref })).connection?.metadata)
      .toEqual({ plan: "pro", seats: 5 });

    await button(page, "Edit metadata").click();
    await editor.fill('{"plan": "team", "seats": 5}');
    await connections().updateMetadata({ ref, metadata: { plan: "enterprise" } });
    await button(page, "Save metadata").click();
    await page.getByText("Someone else changed the same keys").waitFor();
    await page.getByLabel("Theirs").check();
    await button(page, "Save merged").click();
    await editor.waitFor({ state: "detached" });
    expect((await connections().getConnection({ ref })).connection?.metadata).toEqual({ plan: "enterprise", seats: 5 });
  });

  it("reveals credentials only with a key, and takes them out of the page again", async () => {
    const page = await open(`/connections/keyed/${idOf(7)}`);
    await button(page, "Reveal credentials").click();
    expect(await page.content()).not.toContain(`key-of-${idOf(7)}`);
    await page.getByLabel("API key").fill("lk_wrong");
    await button(page, "Continue").click();
    await page.getByText("This key is not known").waitFor();
    await page.getByLabel("API key").fill(adminKey);
    await button(page, "Continue").click();
    await page.getByText(`key-of-${idOf(7)}`).waitFor();
    await button(page, /^Hide/).click();
    expect(await page.content()).not.toContain(`key-of-${idOf(7)}`);
  });

  it("shows the connection once the end user has used the link", async () => {
    const page = await open("/connect");
    await page.getByLabel("keyed").check();
    await page.getByLabel("End user ID").fill("heidi");
    await button(page, "Make a link").click();
    await page.getByText("Waits for the end user").waitFor();
    const opening = page.waitForEvent("popup");
    await button(page, "Open in a window").click();
    const popup = await opening;
    await popup.getByLabel(/key/i).first().fill("key-of-heidi");
    await popup.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Connected:").waitFor({ timeout: 30_000 });
    await page.getByRole("link", { name: /^keyed\// }).click();
    await page.getByText("Healthy").first().waitFor();
  });

  it("makes a link for an end user, lists it while it is open, and deletes it", async () => {
    const page = await open("/connect");
    await page.getByLabel("keyed").check();
    await page.getByLabel("End user ID").fill("grace");
    await button(page, "Make a link").click();
    const link = page.locator(".new-link code");
    expect(await link.innerText()).toMatch(/\/connect\/\?session_token=lk_connect_/);
    await page.getByRole("row", { name: /grace keyed Not opened/ }).waitFor();
    await button(page, "Delete the link for grace").click();
    await page.getByRole("row", { name: /grace/ }).waitFor({ state: "detached" });
    await page.getByText("This link no longer works").waitFor();
    const { sessions } = await dashboard.sidecar.client(ConnectSessionService).listConnectSessions({ environment });
    expect(sessions.filter(({ endUser }) => endUser?.id === "grace")).toEqual([]);
  });

  it("says what is still to choose, and stores the choice", async () => {
    await importUndecided();
    const page = await open("/connections/choosing/ada");
    await page.getByText("Requests that need the choice fail until it is made.").waitFor();
    await button(page, "Choose").click();
    const list = page.getByLabel("Folder");
    // The sites come from the provider.
    await list.selectOption({ label: await list.locator("option").nth(1).innerText() });
    await button(page, "Save").click();
    await page.getByText("Saved the choice").waitFor();
    await button(page, "Change").waitFor();
    const ref = { environment, integration: "choosing", id: "ada" };
    const { connection } = await connections().getConnection({ ref });
    expect(connection).toMatchObject({ choicesNeeded: [], connectionConfig: { folderId: expect.any(String) } });
    await page.close();
  });
});
