/** Every page of the dashboard, full of hostile texts, in both themes, wide and on a phone. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page, Request } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { type Sandbox, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { fillWithEverything, writeScripts } from "../../support/dashboard/everything.ts";
import {
  failuresIn,
  inaccessible,
  plantedIn,
  plantedText,
  secretsIn,
  settled,
  tooWide,
} from "../../support/dashboard/judged.ts";
import { allPages, type SamplePage } from "../../support/dashboard/pages.ts";
import { dashboardOfFile } from "../../support/sidecar/dashboard.ts";
import { adminKey, secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** A folder for pictures of all pages, with ordinary texts in place of hostile ones. */
const shots = process.env["LATCHKEY_TEST_SHOTS"];
/** Only these pages, by name. */
const wanted = process.env["LATCHKEY_TEST_PAGES"]?.split(",");
const textOf = shots === undefined ? plantedText : (field: string) => `Sample ${field}`;
const wide = { width: 1280, height: 800 };
const phone = { width: 390, height: 844 };

describe.skipIf(lacks("chromium"))("every page of the dashboard", () => {
  const scripts = mkdtempSync(join(tmpdir(), "latchkey-scripts-"));
  let sandbox: Sandbox | undefined;
  beforeAll(async () => {
    writeScripts(scripts, textOf("script"));
    sandbox = await startSandbox();
  });
  /** Enough of an MCP server to be set up. */
  const mcpServer = createServer((_, response) => void response.end('{"jsonrpc":"2.0","id":1,"result":{}}'));
  const mcpUrl = () => `http://localhost:${(mcpServer.address() as AddressInfo).port}`;
  beforeAll(() => new Promise<void>((resolve) => void mcpServer.listen(0, "127.0.0.1", resolve)));
  afterAll(() => mcpServer.close());
  const dashboard = dashboardOfFile(() => ({
    LATCHKEY_ALLOW_PRIVATE: `${allowPrivateFor(sandbox?.origin ?? "")},${mcpUrl()}`,
    // Nobody is there: deliveries fail.
    LATCHKEY_FORWARD_URL: "http://127.0.0.1:9/hooks",
    LATCHKEY_SCRIPTS: scripts,
  }));
  afterAll(async () => {
    await sandbox?.close();
    rmSync(scripts, { recursive: true, force: true });
  });

  /** What no page may show. */
  let hidden: readonly string[] = [];

  /** The pages of an integration of an MCP server. */
  async function mcpPages(): Promise<readonly SamplePage[]> {
    const { rest } = dashboard.sidecar;
    const display_name = textOf("integration").slice(0, 200);
    await rest("POST", "/integrations", { body: { unique_key: "mcp", mcp_url: `${mcpUrl()}/mcp`, display_name } });
    const connection = { provider_config_key: "mcp", connection_id: textOf("id"), credentials: { type: "NONE" } };
    await rest("POST", "/connections", { body: connection });
    const pattern = "/integrations/:key";
    return [
      { name: "mcp-integration", path: "/integrations/mcp", pattern },
      { name: "mcp-tools", path: "/integrations/mcp?tab=tools", pattern },
    ];
  }

  async function lookAtAll(pages: Iterable<SamplePage>, problems: string[]): Promise<void> {
    const page = await dashboard.open();
    let at = "";
    watch(page, dashboard.sidecar.control, (problem) => problems.push(`${at}: ${problem}`));
    for (const one of pages) {
      at = one.name;
      const found = await problemsOf(page, `${dashboard.sidecar.control}/ui${one.path}`, one);
      problems.push(...[...found, ...(await secretsIn(page, hidden))].map(named(at)));
    }
  }

  it("can be used by everyone, fits a phone, and shows values as text", async () => {
    if (sandbox === undefined) throw new Error("the sandbox has not started");
    const { samples, secrets } = await fillWithEverything(dashboard.sidecar, sandbox, textOf);
    hidden = [...secrets, adminKey, secretKey];
    const all = [...(await allPages(samples)), ...(await mcpPages())];
    const pages = all.filter(({ name }) => wanted?.includes(name) ?? true);
    const problems: string[] = [];
    // Two tabs at a time: a page waits for its answers while the other one is judged.
    const left = pages.values();
    await Promise.all([lookAtAll(left, problems), lookAtAll(left, problems)]);
    expect(problems).toEqual([]);
  });

  it("loads at most 150 KB with gzip until the first page is shown", async () => {
    const page = await dashboard.open();
    await page.setExtraHTTPHeaders({ "accept-encoding": "gzip" });
    const requests = new Map<string, Request>();
    page.on("requestfinished", (request) => {
      const { pathname } = new URL(request.url());
      if (pathname.startsWith("/ui/")) requests.set(pathname, request);
    });
    const session = await page.context().newCDPSession(page);
    await session.send("Network.setCacheDisabled", { cacheDisabled: true });
    await page.reload();
    await settled(page);
    const sizes = await Promise.all([...requests.values()].map((request) => request.sizes()));
    expect(sizes.length).toBeGreaterThan(3);
    expect(sizes.reduce((sum, { responseBodySize }) => sum + responseBodySize, 0)).toBeLessThan(firstPageBytes);
  });
});

/** The budget of the first page. */
const firstPageBytes = 150 * 1_024;

const named = (page: string) => (problem: string) => `${page}: ${problem}`;

async function problemsOf(page: Page, url: string, { name }: SamplePage): Promise<readonly string[]> {
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize(wide);
  await page.goto(url);
  const isShown = await settled(page).then(
    () => true,
    () => false,
  );
  if (!isShown) return ["shows nothing"];
  const found = [...(await failuresIn(page)), ...(await inaccessible(page, "all")), ...(await plantedIn(page))];
  await shoot(page, `${name}-1280-light`);
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  found.push(...(await inaccessible(page, "colors")).map((problem) => `dark: ${problem}`));
  await shoot(page, `${name}-1280-dark`);
  await page.setViewportSize(phone);
  found.push(...(await tooWide(page)).map((problem) => `at 390 px: ${problem}`));
  await shoot(page, `${name}-390-dark`);
  if (shots !== undefined) {
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await shoot(page, `${name}-390-light`);
  }
  return found;
}

async function shoot(page: Page, name: string): Promise<void> {
  if (shots === undefined) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
}

/** Reports scripts that run, errors of the page's own, and requests to other origins. */
function watch(page: Page, origin: string, report: (problem: string) => void): void {
  page.on("console", (message) => {
    const isOfNetwork = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isOfNetwork) report(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => report(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    report(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { protocol } = new URL(request.url());
    const isInside = request.url().startsWith(`${origin}/`) || protocol === "data:" || protocol === "blob:";
    if (!isInside) report(`asks another origin: ${request.url()}`);
  });
}
