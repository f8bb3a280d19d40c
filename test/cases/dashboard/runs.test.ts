/** Scripts, runs, records, logs and the audit trail in a browser, over the sandbox. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import type { TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { writeScripts } from "../syncs/scripting.ts";

const integration = "sandbox-calendar";
const environment = "dev";

/** Lists the calendars of the sandbox; then waits for the test. */
const calendars = `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Saves calendars.",
  frequency: "every hour",
  autoStart: false,
  models: { Calendar: z.object({ id: z.string() }) },
  exec: async (nango) => {
    const { data } = await nango.get({ endpoint: "/v3/users/me/calendarList" });
    await nango.log("found " + data.items.length);
    await nango.batchSave(data.items.map(({ id }) => ({ id })), "Calendar");
    while ((await nango.getMetadata()).go !== true) await new Promise((done) => setTimeout(done, 50));
    await nango.log("went on");
  },
});`;

const scripts = {
  "syncs/calendars.ts": calendars,
  "actions/fail.ts": `
    import { createAction } from "latchkey/scripts";
    export default createAction({ description: "Fails.", exec: async () => { throw new Error("not today"); } });`,
  "actions/wrong.ts": "export default createAction(",
};

async function fill({ client }: TestSidecar, sandbox: Sandbox): Promise<void> {
  for (const description of describeProviders(sandbox.origin)) {
    if (description["name"] !== integration) continue;
    await client(ProviderService).createProvider({ provider: readProvider(description) });
  }
  const oauth = { clientId: "sandbox", scopes: [] };
  const secrets = { clientSecret: "sandbox-secret" };
  await client(IntegrationService).createIntegration({
    integration: { environment, key: integration, provider: integration, oauth, secrets },
  });
  const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant({ user: "ada@example.com" });
  await client(ConnectionService).importConnection({
    connection: {
      ...{ environment, integration, id: "ada" },
      credentials: { kind: { case: "oauth2", value: { accessToken, refreshToken } } },
    },
  });
}

describe.skipIf(lacks("chromium"))("scripts and what they did", () => {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-scripts-"));
  let sandbox: Sandbox | undefined;
  let page: Page;
  beforeAll(async () => {
    writeScripts(folder, scripts, integration);
    sandbox = await startSandbox();
  });
  const dashboard = dashboardOfFile(() => ({
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox?.origin ?? ""),
    LATCHKEY_SCRIPTS: folder,
  }));
  afterAll(async () => {
    await sandbox?.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const go = (isGoing: boolean) =>
    dashboard.sidecar.client(ConnectionService).updateMetadata({
      ref: { environment, integration, id: "ada" },
      metadata: { go: isGoing },
    });
  const open = async (path: string) => {
    page = await dashboard.open(path);
    page.setDefaultTimeout(5_000);
  };
  const seen = (text: string | RegExp) => page.getByText(text).first().waitFor();

  it("runs a sync, shows its run while it goes on, and what it saved", async () => {
    if (sandbox === undefined) throw new Error("the sandbox has not started");
    await fill(dashboard.sidecar, sandbox);
    await open("/scripts");
    await seen("1 script has mistakes");
    await page.getByRole("link", { name: "calendars" }).click();
    await seen("Every hour");
    await page.getByRole("button", { name: "Run now" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Run now" }).click();

    const console = page.getByRole("region", { name: "Console" });
    await console.getByText("found 2").waitFor();
    await page.getByRole("table", { name: "Changed records" }).getByRole("cell", { name: "2", exact: true }).waitFor();
    await page.locator(".lead").getByText("Running").waitFor();
    expect(await console.getByText("went on").count()).toBe(0);
    await go(true);
    await console.getByText("went on").waitFor();
    await page.locator(".lead").getByText("Succeeded").waitFor();
    await page.reload();
    await console.getByText("went on").waitFor();

    await page.getByRole("link", { name: "Browse" }).click();
    await page.getByRole("button", { name: "ada@example.com" }).click();
    await page.getByRole("dialog").getByText('"id": "ada@example.com"').waitFor();
    await page.reload();
    await page.getByRole("dialog").getByText('"id": "ada@example.com"').waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("Last change").selectOption("DELETED");
    await seen("No record fits");
  });

  it("cancels a run, changes the schedule of a sync, and tries a script without saving", async () => {
    await go(false);
    await open(`/scripts/${integration}/sync/calendars`);
    const row = page.getByRole("table", { name: "Connections of this sync" }).getByRole("row").nth(1);
    await row.getByRole("button", { name: "Resume for ada" }).click();
    await row.getByRole("button", { name: "Pause for ada" }).waitFor();
    await row.getByRole("button", { name: "Change the schedule for ada" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Run").fill("every 1s");
    await dialog.getByRole("button", { name: "Save schedule" }).click();
    await dialog.getByText("It must be at least 30 seconds.").waitFor();
    await dialog.getByLabel("Run").fill("2h");
    await dialog.getByRole("button", { name: "Save schedule" }).click();
    await row.getByText("Every 2 hours").waitFor();

    await row.getByRole("button", { name: "Run for ada" }).click();
    await page.getByRole("table", { name: "Runs of this script" }).getByText("Running").waitFor();
    await row.getByText("Running").waitFor();
    await page.getByRole("table", { name: "Runs of this script" }).getByRole("link").first().click();
    await page.getByRole("button", { name: "Cancel run" }).click();
    await page.locator(".lead").getByText("Cancelled").waitFor();

    await go(true);
    await page.goBack();
    await page.getByRole("button", { name: "Dry run" }).click();
    await dialog.getByLabel("Connection").fill("ada");
    await dialog.getByRole("button", { name: "Start dry run" }).click();
    await dialog.getByText("Would save 2 records of Calendar").waitFor();
    await dialog.getByText("went on").waitFor();
    await page.keyboard.press("Escape");
  });

  it("follows logs and the audit trail, finds them by text, and takes them away", async () => {
    await open("/logs");
    await page.getByRole("button", { name: "Live" }).waitFor();
    const rows = page.getByRole("table", { name: "Logs" }).locator("tbody tr");
    const before = await rows.count();
    const action = { connection: { environment, integration, id: "ada" }, name: "fail" };
    const fail = () => expect(dashboard.sidecar.client(SyncService).runAction(action)).rejects.toThrow("not today");
    await fail();
    await expect.poll(() => rows.count()).toBe(before + 1);
    await page.getByRole("button", { name: "Live" }).click();
    await fail();
    await page.getByRole("button", { name: "Paused" }).click();
    await expect.poll(() => rows.count()).toBe(before + 2);
    await page.getByRole("searchbox").fill("NOT TODAY");
    await page.waitForURL(/q=NOT/);
    await expect.poll(() => rows.count()).toBe(2);
    await page.getByLabel("Level").selectOption("error");
    await page.reload();
    await expect.poll(() => rows.count()).toBe(2);
    expect(page.url()).toContain("q=NOT+TODAY&level=error");
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export CSV" }).click();
    const file = readFileSync(await (await download).path(), "utf8");
    expect(file).toMatch(/^log_id,time,operation,.*\r\n\w+,.*,script\.action,failed,sandbox-calendar,ada,/);
    expect(file.trim().split("\r\n")).toHaveLength(3);

    await page.getByRole("link", { name: "Action run" }).first().click();
    await seen("not today");
    await page.getByRole("link", { name: "Open the run" }).click();
    await seen("The last lines of the log name file and line.");

    await page.goto(`${dashboard.sidecar.control}/ui/audit?kind=sync`);
    await seen("sync.frequency");
    await page.getByRole("button", { name: "Live" }).waitFor();
    const triggers = page.getByText("sync.trigger");
    const known = await triggers.count();
    await dashboard.sidecar
      .client(SyncService)
      .triggerSync({ environment, integration, connectionId: "ada", names: ["calendars"] });
    await expect.poll(() => triggers.count()).toBe(known + 1);
  });
});
