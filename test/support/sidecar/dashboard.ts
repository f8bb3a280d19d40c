import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { refreshDashboard } from "../../../bin/dashboard.ts";
import { browserOfFile } from "../peers/chromium.ts";
import { adminKey, startUnmanaged, type TestSidecar } from "./harness.ts";

/** A sidecar with its dashboard, and a browser, for all tests of a file. */
export interface DashboardOfFile {
  readonly sidecar: TestSidecar;
  /** A page of a new browser profile, signed in with the control key, at a path below `/ui`. */
  open(path?: string, key?: string): Promise<Page>;
}

/** `settings` are variables of the sidecar, read when the file's tests begin. */
export function dashboardOfFile(settings: () => Readonly<Record<string, string>> = () => ({})): DashboardOfFile {
  const newPage = browserOfFile();
  let sidecar: TestSidecar | undefined;
  let folder = "";
  beforeAll(async () => {
    await refreshDashboard();
    folder = await mkdtemp(join(tmpdir(), "latchkey-dashboard-"));
    sidecar = await startUnmanaged({ folder, env: { LATCHKEY_UI: "on", ...settings() } });
  });
  afterAll(async () => {
    await sidecar?.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const running = () => {
    if (sidecar === undefined) throw new Error("the sidecar of this file has not started");
    return sidecar;
  };
  return {
    get sidecar() {
      return running();
    },
    async open(path = "/", key = adminKey) {
      const page = await newPage();
      await page.goto(`${running().control}/ui${path}`);
      await signIn(page, key);
      return page;
    },
  };
}

/** Signs in on the sign-in page, and waits for the page that the address names. */
export async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel("Key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}
