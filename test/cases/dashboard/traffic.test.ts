import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** A provider whose answers would be scripts if a page took them for markup. */
const provider = createServer((request, response) => {
  const status = request.url?.startsWith("/fails") ? 503 : 200;
  response.writeHead(status, { "content-type": "text/html" }).end(`<img src=x onerror=alert(1)> ${request.url}`);
});

/** A folder for pictures. */
const shots = process.env["LATCHKEY_TEST_SHOTS"];
async function shoot(page: Page, name: string): Promise<void> {
  if (shots === undefined) return;
  mkdirSync(shots, { recursive: true });
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(300);
    await page.screenshot({ path: `${shots}/${name}-${colorScheme}.png` });
  }
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForTimeout(300);
  await page.screenshot({ path: `${shots}/${name}-390.png` });
  await page.setViewportSize({ width: 1280, height: 800 });
}

describe.skipIf(lacks("chromium"))("traffic in the dashboard", () => {
  const portOf = () => (provider.address() as AddressInfo).port;
  beforeAll(async () => {
    await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  });
  const dashboard = dashboardOfFile(() => ({ LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${portOf()}` }));
  afterAll(() => {
    provider.closeAllConnections();
    provider.close();
  });

  async function connect() {
    const { client, rest } = dashboard.sidecar;
    await client(ProviderService).createProvider({
      provider: {
        name: "here",
        auth: { case: "apiKey", value: { header: "x-api-key" } },
        proxy: { baseUrl: `https://127.0.0.1:${portOf()}` },
      },
    });
    await rest("POST", "/integrations", { body: { unique_key: "here", provider: "here" } });
    const credentials = { type: "API_KEY", apiKey: "the-key-of-ada" };
    await rest("POST", "/connections", {
      body: { provider_config_key: "here", connection_id: "ada", credentials },
    });
  }

  const call = (path: string) =>
    fetch(`${dashboard.sidecar.data}/proxy${path}`, {
      headers: { authorization: `Bearer ${secretKey}`, "provider-config-key": "here", "connection-id": "ada" },
    }).then((response) => response.text());

  it("leads to the first call, sends it, and shows it live and in charts", async () => {
    const page = await dashboard.open("/?env=dev");
    page.on("dialog", () => expect.fail("a text of the provider ran as a script"));
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByRole("link", { name: "Choose a provider" }).waitFor();
    await shoot(page, "overview-first");
    await connect();
    const { origin } = new URL(page.url());

    await page.goto(`${origin}/ui/requests/try?env=dev&integration=here`);
    await page.getByText("from the connection’s credentials").waitFor();
    await page.getByLabel("Path and query at the provider").fill("/hostile?a=b");
    await page.getByText(`127.0.0.1:${portOf()}/hostile?a=b`).waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    const response = page.getByRole("region", { name: "Response", exact: true });
    await response.getByText("<img src=x onerror=alert(1)> /hostile?a=b").waitFor();
    await page.getByText("The same as code").click();
    await page.getByRole("button", { name: "Python" }).click();
    const code = await page.getByRole("region", { name: "code", exact: true }).textContent();
    expect(code).toContain("YOUR_KEY");
    expect(code).not.toContain("the-key-of-ada");
    await shoot(page, "try");
    expect(new URL(page.url()).searchParams.get("path")).toBe("/hostile?a=b");

    await page.goto(`${origin}/ui/requests?env=dev`);
    const rows = page.getByRole("table", { name: "Requests" }).getByRole("row");
    await rows.filter({ hasText: "/hostile?…" }).waitFor();
    await page.getByRole("button", { name: "Live" }).waitFor();
    for (const path of ["/fails/<b>", "/a", "/b"]) await call(encodeURI(path));
    await rows.filter({ hasText: "/b" }).first().waitFor();
    await shoot(page, "requests");
    await page.getByRole("button", { name: "5xx" }).click();
    await rows.filter({ hasText: "/hostile" }).waitFor({ state: "detached" });
    await page.reload();
    await rows.filter({ hasText: "503" }).getByRole("link", { name: /fails/ }).click();
    const details = page.getByRole("dialog");
    await details.getByText("The same with curl").waitFor();
    expect(new URL(page.url()).searchParams.get("status")).toBe("5");
    await shoot(page, "requests-details");
    await call("/fails/again");
    await page.getByRole("button", { name: "Show 1 new request", includeHidden: true }).waitFor();
    await page.keyboard.press("Escape");
    await details.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Show 1 new request" }).click();
    await rows.filter({ hasText: "/fails/again" }).waitFor();
    await page.getByRole("button", { name: "Live" }).click();
    await call("/fails/unseen");
    await page.getByRole("button", { name: "Paused" }).click();
    await rows.filter({ hasText: "/fails/unseen" }).waitFor();

    await page.goto(`${origin}/ui/?env=dev`);
    await page.getByRole("img", { name: "Requests by integration", exact: true }).locator("canvas").waitFor();
    const table = page.getByRole("table", { name: "Requests by integration" });
    await table.getByRole("row").filter({ hasText: "here" }).filter({ hasText: "3 (50 %)" }).waitFor();
    await page.getByRole("button", { name: "24 h" }).click();
    expect(new URL(page.url()).searchParams.get("range")).toBe("24h");
    await shoot(page, "overview");
  });

  it("says which scope is missing to send a request", async () => {
    const { secret } = await dashboard.sidecar.client(EnvironmentService).createKey({
      environment: "dev",
      scopes: [Scope.CONNECTIONS_READ, Scope.INTEGRATIONS_READ],
    });
    const page = await dashboard.open("/requests", secret);
    const button = page.getByRole("button", { name: "Try a request" });
    await button.waitFor();
    expect([await button.getAttribute("aria-disabled"), await button.getAttribute("title")]).toEqual([
      "true",
      "Your key lacks the scope proxy",
    ]);
  });
});
