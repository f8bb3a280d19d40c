/** What a person does with the dashboard: from the catalog to a connection that breaks and is mended, and by keyboard. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { settled } from "../../support/dashboard/judged.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** Names the step that takes longer. */
const stepMs = 20_000;

describe.skipIf(lacks("chromium"))("a person at the dashboard", () => {
  let started: Sandbox | undefined;
  beforeAll(async () => {
    started = await startSandbox({ behaviour: { consent: "ask" } });
  });
  const dashboard = dashboardOfFile(() => ({ LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandboxOf().origin) }));
  afterAll(() => started?.close());
  const sandboxOf = () => {
    if (started === undefined) throw new Error("the sandbox has not started");
    return started;
  };
  const main = (page: Page) => page.locator("main");

  it("creates an integration, connects an account, sees why it broke, and reconnects it", async () => {
    const sandbox = sandboxOf();
    const [files] = describeProviders(sandbox.origin).map(readProvider);
    await dashboard.sidecar.client(ProviderService).createProvider({ provider: files });
    const page = await dashboard.open("/catalog");
    page.setDefaultTimeout(stepMs);

    await page.getByLabel("Name or category").fill("sandbox: file");
    await page.getByRole("link", { name: /Sandbox: file storage/ }).click();
    await page.getByLabel(/test credentials/).check();
    await page.getByRole("button", { name: "Create integration" }).click();
    await page.getByRole("heading", { level: 1, name: /Sandbox: file storage/ }).waitFor();

    await allowIn(page, () => page.getByRole("button", { name: "Test", exact: true }).click());
    await main(page).getByText("It works:").getByRole("link").click();
    const state = main(page).locator("header .badge");
    await state.getByText("Healthy").waitFor();
    const address = page.url();

    // The user takes the grant back: only the next refresh finds out.
    sandbox.revoke();
    await page.getByRole("button", { name: "Refresh now" }).click();
    await state.getByText("Needs reconnect").waitFor();
    await main(page).getByText("The provider no longer accepts the refresh token.").waitFor();

    await page.getByRole("button", { name: "Reconnect" }).click();
    await page.getByRole("button", { name: "Make a link" }).click();
    await allowIn(page, () => page.getByRole("button", { name: "Open in a window" }).click());
    await state.getByText("Healthy").waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    expect(page.url()).toBe(address);
    const { connections } = await dashboard.sidecar.client(ConnectionService).listConnections({ environment: "dev" });
    expect(connections).toHaveLength(1);
  });

  it("goes everywhere by keyboard, back as it came, and keeps everything on reload", async () => {
    const page = await dashboard.open("/");
    page.setDefaultTimeout(stepMs);
    await settled(page);
    await page.keyboard.press("g");
    await page.keyboard.press("c");
    await page.getByRole("heading", { level: 1, name: "Connections" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("nobody");
    await expect.poll(() => new URL(page.url()).searchParams.get("q")).toBe("nobody");
    await page.reload();
    await settled(page);
    expect(await page.getByRole("searchbox").inputValue()).toBe("nobody");

    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("a");
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Connections" }).waitFor();
    expect(await page.getByRole("searchbox").inputValue()).toBe("nobody");
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  });
});

/** Opens the connect page in a second window, and consents there. */
async function allowIn(page: Page, open: () => Promise<void>): Promise<void> {
  const [popup] = await Promise.all([page.context().waitForEvent("page"), open()]);
  await popup.getByRole("button", { name: /Connect|Continue/ }).click();
  await popup.getByRole("button", { name: "Allow" }).click();
}
