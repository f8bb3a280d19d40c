import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { adminKey } from "../../support/sidecar/harness.ts";

const dashboard = dashboardOfFile();
const dialogOf = (page: Page) => page.getByRole("dialog");

/** Enters the key that a call needs beside the session. */
async function enterKey(page: Page, key = adminKey): Promise<void> {
  const dialog = page.getByRole("dialog", { name: "Enter your key" });
  await dialog.getByLabel("API key").fill(key);
  await dialog.getByRole("button", { name: "Continue" }).click();
}

async function newSecretOf(page: Page): Promise<string> {
  const text = await page.locator(".new-secret code").textContent();
  await page.getByRole("button", { name: "Done" }).click();
  return text ?? "";
}

it("makes a key, shows its use, rotates it and revokes it", async () => {
  const { sidecar } = dashboard;
  const page = await dashboard.open("/environments?tab=keys");
  await page.getByRole("button", { name: "Create key" }).click();
  const dialog = dialogOf(page);
  await dialog.getByLabel("Name").fill("secret-key");
  await dialog.getByRole("button", { name: "Create key" }).click();
  await enterKey(page);
  // A name that is taken is refused at its place, and nothing that was written is lost.
  await dialog.getByText(/there is a key "secret-key" already/i).waitFor();
  await dialog.getByLabel("Name").fill("backend");
  await dialog.getByLabel("credentials:read").uncheck();
  await dialog.getByRole("button", { name: "Create key" }).click();
  const secret = await newSecretOf(page);
  const row = page.getByRole("row", { name: /^backend / });
  await expect.poll(() => row.textContent()).toContain("never");

  expect((await sidecar.rest("GET", "/connections", { key: secret })).status).toBe(200);
  await page.reload();
  await expect.poll(() => row.textContent()).toContain("just now");
  expect(await page.content()).not.toContain(secret);
  await row.getByRole("link", { name: "backend" }).click();
  const scopes = dialogOf(page).getByRole("table", { name: "Scopes" });
  await expect.poll(() => scopes.getByRole("row", { name: /^credentials:read / }).textContent()).toMatch(/No$/);
  await expect.poll(() => scopes.getByRole("row", { name: /^proxy / }).textContent()).toMatch(/Yes$/);

  await dialogOf(page).getByRole("button", { name: "Rotate" }).click();
  await dialogOf(page).getByRole("button", { name: "Rotate key" }).click();
  await enterKey(page);
  const next = await newSecretOf(page);
  expect((await sidecar.rest("GET", "/connections", { key: next })).status).toBe(200);
  await expect.poll(() => row.textContent()).toMatch(/Ends in (1 d|23 h)/);

  await page.getByRole("link", { name: "backend-2" }).click();
  await dialogOf(page).getByRole("button", { name: "Revoke" }).click();
  const revoke = dialogOf(page).getByRole("button", { name: "Revoke key" });
  expect(await revoke.getAttribute("aria-disabled")).toBe("true");
  await dialogOf(page).getByLabel("Type backend-2 to confirm").fill("backend-2");
  await revoke.click();
  await expect.poll(() => page.getByRole("row", { name: /^backend-2 / }).count()).toBe(0);
  await expect.poll(async () => (await sidecar.rest("GET", "/connections", { key: next })).status).toBe(401);
  expect((await sidecar.rest("GET", "/connections", { key: secret })).status).toBe(200);
});

it("creates an environment, changes its settings, and reveals a signing secret only with the key", async () => {
  const page = await dashboard.open("/environments");
  await page.getByRole("button", { name: "Create environment" }).click();
  await dialogOf(page).getByLabel("Name").fill("Prod!");
  await dialogOf(page).getByRole("button", { name: "Create environment" }).click();
  await expect.poll(() => dialogOf(page).getByLabel("Name").getAttribute("aria-invalid")).toBe("true");
  await dialogOf(page).getByLabel("Name").fill("prod");
  await dialogOf(page).getByRole("button", { name: "Create environment" }).click();
  await page.getByRole("heading", { name: "prod", exact: true }).waitFor();

  await page.getByLabel("Forward URL", { exact: true }).fill("https://app.example.com/hooks");
  await page.getByLabel("Allowed origins").fill("https://app.example.com\nhttps://admin.example.com");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Saved the settings.").waitFor();
  const { environment } = await dashboard.sidecar.client(EnvironmentService).getEnvironment({ name: "prod" });
  expect(environment).toMatchObject({
    forwardUrl: "https://app.example.com/hooks",
    allowedOrigins: ["https://app.example.com", "https://admin.example.com"],
  });

  await page.getByRole("button", { name: "Rotate", exact: true }).click();
  await dialogOf(page).getByRole("button", { name: "Rotate secret" }).click();
  await enterKey(page);
  const secret = await newSecretOf(page);
  expect(secret).toMatch(/^whsec_/);
  await page.getByRole("button", { name: "Reveal" }).click();
  expect(await page.content()).not.toContain(secret);
  await enterKey(page, "lk_not-the-key-but-something-as-long-as-one");
  await page.getByText("This key is not known, or it lacks the permission.").waitFor();
  await enterKey(page);
  await dialogOf(page).getByText(secret).waitFor();
});

it("shows the state of the system, checks the store and downloads a backup", async () => {
  const page = await dashboard.open("/system");
  await page.getByRole("button", { name: "Check now" }).click();
  await page.getByText("No damage").waitFor();
  await page.getByRole("button", { name: "Back up" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialogOf(page).getByRole("button", { name: "Download backup" }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/^latchkey-\d{4}-\d\d-\d\d-\d+\.backup$/);
  await dialogOf(page).getByText("The backup is complete.").waitFor();
  await page.keyboard.press("Escape");
  await page.getByText(/^\d+, \d+ commits? ago$/).waitFor();
  await page.getByRole("button", { name: "Configuration" }).click();
  await page.getByRole("searchbox").fill("seal");
  const table = page.getByRole("table", { name: "Values in force" });
  await expect.poll(() => table.getByRole("row").count()).toBe(2);
  expect(await table.textContent()).toContain("Set, secret");
});

it("tells a key of an environment what it may not see", async () => {
  const environments = dashboard.sidecar.client(EnvironmentService);
  const { secret } = await environments.createKey({
    environment: "dev",
    id: "visitor",
    scopes: [Scope.CONNECTIONS_READ],
  });
  const page = await dashboard.open("/environments?tab=keys", secret);
  await page.getByText(/Keys are shown to control keys/).waitFor();
  const create = page.getByRole("button", { name: "Create key" });
  expect([await create.getAttribute("aria-disabled"), await create.getAttribute("title")]).toEqual([
    "true",
    "Your key lacks the scope admin",
  ]);
  await page.goto(`${dashboard.sidecar.control}/ui/system`);
  await page.getByText(/need a key with the scope admin/).waitFor();

  // An operator sees the browser, and signs it out.
  const operator = await dashboard.open("/environments?tab=sessions");
  const row = operator.getByRole("row", { name: /^visitor .* on / });
  await row.getByRole("button", { name: "Sign out visitor" }).click();
  await dialogOf(operator).getByRole("button", { name: "Sign out" }).click();
  await expect.poll(() => row.count()).toBe(0);
  await page.reload();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
});
