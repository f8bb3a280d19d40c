/**
 * `npm run pictures`: makes the README's pictures of the dashboard, in docs/images/, from a sidecar with sample data that
 * had three hours of traffic.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { refreshDashboard } from "../../../bin/dashboard.ts";
import { root } from "../../../bin/steps.ts";
import { describeListener, listen } from "../../../src/base/http/listener.ts";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { startSandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { pathOfChromium } from "../peers/browsers.ts";
import { adminKey, startUnmanaged } from "../sidecar/harness.ts";
import { fillWithSamples, minutesOfTraffic } from "./samples.ts";

const folder = join(root, "docs/images");
const size = { width: 1280, height: 800 };
const maxBytes = 150 * 1_024;
const minuteMs = 60_000;

await refreshDashboard();
const store = mkdtempSync(join(tmpdir(), "latchkey-pictures-"));
const clock = startClock(-minutesOfTraffic * minuteMs);
const sandbox = await startSandbox({ now: Date.now, behaviour: { consent: "allow" } });
const application = createServer((request, response) => void request.resume().on("end", () => response.end("{}")));
await listen(application, { kind: "tcp", host: "127.0.0.1", port: 0 });
const sidecar = await startUnmanaged({
  folder: store,
  now: Date.now,
  // The jumps of the clock are no overload.
  files: { "/pictures.yaml": "proxy: { overload: { delay: 1h, for: 1h } }" },
  env: {
    LATCHKEY_CONFIG: "/pictures.yaml",
    LATCHKEY_UI: "on",
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    LATCHKEY_FORWARD_URL: describeListener(application, false),
  },
});
const browser = await chromium.launch({ executablePath: pathOfChromium(), args: ["--no-sandbox"] });
try {
  await fillWithSamples(sidecar, sandbox, () => clock.pass(minuteMs));
  mkdirSync(folder, { recursive: true });
  for (const scheme of ["light", "dark"] as const) await takePicture(browser, scheme);
} finally {
  await browser.close();
  await sidecar.stop();
  await sandbox.close();
  application.close();
  rmSync(store, { recursive: true, force: true });
}

async function takePicture(browser: Browser, colorScheme: "light" | "dark"): Promise<void> {
  const page = await browser.newPage({ viewport: size, colorScheme, reducedMotion: "reduce" });
  await page.goto(`${sidecar.control}/ui/`);
  await page.getByLabel("Key").fill(adminKey);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  await page.locator("main h1").first().waitFor();
  // Away from the charts, which say more where the pointer is.
  await page.mouse.move(0, 0);
  await page.waitForTimeout(1_500);
  const path = join(folder, `dashboard-${colorScheme}.png`);
  await page.screenshot({ path });
  await page.close();
  const { size: bytes } = statSync(path);
  process.stdout.write(`${path}: ${Math.round(bytes / 1_024)} KB\n`);
  if (bytes > maxBytes) throw new Error(`${path} is larger than ${maxBytes} bytes`);
}

/**
 * Moves both clocks of this process: the samples take seconds, and appear to have taken hours. Begins with a minute, so
 * that each gets its own requests.
 */
function startClock(beginMs: number) {
  const [date, monotonic] = [Date.now, performance.now.bind(performance)];
  const offsetMs = beginMs - (date() % minuteMs);
  let aheadMs = 0;
  Date.now = () => date() + offsetMs + aheadMs;
  performance.now = () => monotonic() + aheadMs;
  return {
    pass(ms: number) {
      aheadMs += ms;
    },
  };
}
