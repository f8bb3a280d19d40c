import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../src/gen/latchkey/v1/integration_pb.ts";
import { pathOfChromium } from "../support/peers/browsers.ts";
import { importAll, integration } from "./connections.ts";
import { latencyOf, openLoopApart } from "./open-loop.ts";
import { startProvider } from "./provider-process.ts";
import { cores, loadAverage, pinnedTo, pinSelf } from "./proxy-process.ts";
import { createTable } from "./proxy-table.ts";
import {
  type BenchSidecar,
  deployed,
  ms,
  quantile,
  secretKey,
  startBenchSidecar,
  withFolder,
} from "./sidecar-process.ts";

interface DashboardBench {
  readonly count: number;
  readonly rounds: number;
  /** Parts to run; empty: all. */
  readonly only: readonly string[];
}

/** A folder that is kept and used again: filling it takes two minutes. */
const keptFolder = process.env["LATCHKEY_BENCH_STORE"];
const env = { LATCHKEY_UI: "on", ...deployed };
const size = { width: 1280, height: 800 };
const scrolledRows = 10_000;
/** Scrolled at a time. */
const screens = 5;
const perSecond = 500;
const seconds = 5;
/** The pages that are live, each in a tab of its own. */
const livePages = [
  "/",
  "/connections",
  "/requests",
  "/webhooks",
  "/channels",
  "/scripts",
  "/logs",
  "/audit",
  "/system",
];

/**
 * Opens the dashboard in Chromium: its list of a million connections, and all its live pages beside requests through the
 * proxy.
 */
export async function dashboard({ count, rounds, only }: DashboardBench): Promise<void> {
  const wants = (part: string) => only.length === 0 || only.includes(part);
  if (wants("list")) {
    const fill = (folder: string) => listIn(folder, count || 1_000_000, rounds || 5);
    await (keptFolder === undefined ? withFolder(fill) : fill(keptFolder));
  }
  if (wants("beside")) await beside(rounds || 7);
}

async function listIn(folder: string, count: number, rounds: number): Promise<void> {
  if (keptFolder === undefined || !existsSync(folder)) await fill(folder, count);
  const running = await startBenchSidecar({ folder, env });
  const browser = await openBrowser();
  try {
    const began = performance.now();
    const page = await signedIn(browser, running, "/connections");
    await page.locator("main [data-row-link]").first().waitFor();
    say(`sign-in and the first rows after a start: ${ms(performance.now() - began)}`);
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1) times.push(await firstRows(page, running));
    times.sort((a, b) => a - b);
    say(
      `${count} connections: rows after ${ms(quantile(times, 0.5))} of a page load (most ${ms(times.at(-1) ?? 0)}, ${rounds} loads); sidecar ${running.ownMiB()} MiB`,
    );
    await scroll(page);
  } finally {
    await browser.close();
    await running.stop();
  }
}

async function fill(folder: string, count: number): Promise<void> {
  const running = await startBenchSidecar({ folder });
  const withKey: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${secretKey}`);
    return next(request);
  };
  const transport = createGrpcTransport({ baseUrl: running.control, interceptors: [withKey] });
  await createClient(IntegrationService, transport).createIntegration({
    integration: { key: integration, provider: "example-api-key" },
  });
  await importAll(createClient(ConnectionService, transport), { count, integration });
  // LevelDB first finishes the compaction that the import caused.
  await sleep(10_000);
  await running.stop();
}

/** Loads the page anew: the time from the navigation until rows are shown and the page can take a key. */
async function firstRows(page: Page, { control }: BenchSidecar): Promise<number> {
  const since = performance.now();
  await page.goto(`${control}/ui/connections`, { waitUntil: "commit" });
  await page.locator("main [data-row-link]").nth(20).waitFor();
  await page.keyboard.press("j");
  await page.locator("main [data-row-link]:focus").waitFor();
  return performance.now() - since;
}

/** Scrolls through the list: what the page keeps must not grow with the rows that were passed. */
async function scroll(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const look = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    const { nodes } = await session.send("Memory.getDOMCounters");
    return { mib: usedSize / 1_048_576, nodes };
  };
  for (let passed = 0, next = 0; ; passed = await onward(page, passed)) {
    if (passed < next) continue;
    const { mib, nodes } = await look();
    say(`  ${passed} rows passed: heap ${mib.toFixed(1)} MiB, ${nodes} nodes`);
    if (passed >= scrolledRows) return;
    next += scrolledRows / 5;
  }
}

/** Scrolls on by some screens, and returns the number of the last row that is drawn. */
async function onward(page: Page, passed: number): Promise<number> {
  await page.mouse.wheel(0, screens * size.height);
  await page.locator("main tr.pending").first().waitFor({ state: "detached" });
  const last = Number(await page.locator("main tr[aria-rowindex]").last().getAttribute("aria-rowindex"));
  if (last <= passed) await page.waitForTimeout(50);
  return last;
}

/** Requests through the proxy, by turns beside a browser without pages and beside all live pages. */
async function beside(rounds: number): Promise<void> {
  pinSelf();
  await withFolder(async (folder) => {
    const provider = await startProvider();
    mkdirSync(join(folder, "store"));
    const file = join(folder, "latchkey.yaml");
    const name = "sandbox-api-key";
    const providers = describeProviders(provider.origin).filter((one) => one.name === name);
    writeFileSync(file, JSON.stringify({ providers }));
    const sidecar = await startBenchSidecar({
      folder: join(folder, "store"),
      command: pinnedTo(cores.candidate),
      env: { ...env, LATCHKEY_CONFIG: file, LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(provider.origin) },
      isProbed: true,
    });
    // Its pages cost the machine as much, and the measured sidecar nothing.
    mkdirSync(join(folder, "other"));
    const other = await startBenchSidecar({
      folder: join(folder, "other"),
      command: pinnedTo(cores.load),
      env: { ...env, LATCHKEY_CONFIG: file, LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(provider.origin) },
    });
    const browser = await openBrowser({ isAside: true });
    try {
      await connect(sidecar, name);
      await connect(other, name);
      await compare({ sidecar, other, browser, rounds, provider: name });
    } finally {
      await browser.close();
      await other.stop();
      await sidecar.stop();
      await provider.stop();
    }
  });
}

interface Comparison {
  readonly sidecar: BenchSidecar;
  /** A sidecar without requests, whose pages are open instead. */
  readonly other: BenchSidecar;
  readonly browser: Browser;
  readonly rounds: number;
  readonly provider: string;
}

async function compare({ sidecar, other, browser, rounds, provider }: Comparison): Promise<void> {
  const target = {
    port: Number(new URL(sidecar.data).port),
    path: "/proxy/api/me",
    fields: [
      ["Authorization", `Bearer ${secretKey}`],
      ["Provider-Config-Key", provider],
    ] as const,
    ids: ["one"],
  };
  const table = createTable(["p50, ms", "p99, ms", "thread busy, %", "longest turn p99, ms"]);
  const ratios: number[] = [];
  const measure = async (name: string) => {
    await sidecar.look();
    const { calls, failed } = await openLoopApart(target, { perSecond, seconds });
    if (failed > 0) throw new Error(`${failed} calls failed: ${name}`);
    const { cpuMs, wallMs, turnP99Ms } = await sidecar.look();
    table.note(name, [latencyOf(calls, 0.5), latencyOf(calls, 0.99), (100 * cpuMs) / wallMs, turnP99Ms]);
    return latencyOf(calls, 0.99);
  };
  const first = await signedIn(browser, sidecar, "/");
  const second = await signedIn(browser, other, "/");
  for (const page of [first, second]) await page.goto("about:blank");
  const besidePages = async (name: string, { control }: BenchSidecar, context: BrowserContext) => {
    const pages: Page[] = [];
    for (const path of livePages) {
      const page = await context.newPage();
      await page.goto(`${control}/ui${path}`);
      pages.push(page);
    }
    await sleep(1_000);
    const p99 = await measure(name);
    for (const page of pages) await page.close();
    await sleep(500);
    return p99;
  };
  await measure("warm-up");
  for (let round = 0; round < rounds; round += 1) {
    await measure("without");
    const elsewhere = await besidePages("live pages of another sidecar", other, second.context());
    ratios.push((await besidePages("all live pages open", sidecar, first.context())) / elsewhere);
  }
  ratios.sort((x, y) => x - y);
  say(`${perSecond} calls/s through the proxy; medians of ${rounds} rounds, load average ${loadAverage()}:\n`);
  say(`${table.text({ peers: ["without", "live pages of another sidecar"], compared: "p99, ms" })}`);
  say(
    `p99 beside its own live pages to beside those of another sidecar, of each round's pair: ${ratios.map((one) => one.toFixed(2)).join(", ")}`,
  );
}

async function connect({ data }: BenchSidecar, provider: string): Promise<void> {
  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  for (const [path, body] of [
    ["/integrations", { unique_key: provider, provider }],
    [
      "/connections",
      {
        provider_config_key: provider,
        connection_id: "one",
        credentials: { type: "API_KEY", apiKey: "sandbox-api-key" },
      },
    ],
  ] as const) {
    const answer = await fetch(`${data}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  }
}

/** `isAside`: it runs only when nothing else wants the core, since the work of the browser itself is not measured. */
async function openBrowser({ isAside = false } = {}): Promise<Browser> {
  // Its processes inherit the policy of this one.
  if (isAside) setPolicy("--idle");
  const browser = await chromium.launch({ executablePath: pathOfChromium(), args: ["--no-sandbox"] });
  if (isAside) setPolicy("--other");
  return browser;
}

/** Sets how the kernel schedules this process; without `chrt`, nothing changes. */
const setPolicy = (policy: "--idle" | "--other") => spawnSync("chrt", [policy, "-p", "0", String(process.pid)]);

async function signedIn(browser: Browser, { control }: BenchSidecar, path: string): Promise<Page> {
  const page = await (await browser.newContext({ viewport: size })).newPage();
  await page.goto(`${control}/ui${path}`);
  await page.getByLabel("Key").fill(secretKey);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  return page;
}

const say = (text: string) => process.stdout.write(`${text}\n`);
