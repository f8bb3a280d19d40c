import { createServer } from "node:http";
import { build } from "esbuild";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { describeListener, listen } from "../../../src/base/http/listener.ts";
import { pathOfChromium } from "./browsers.ts";

/** One browser for all tests of a file, with a clean profile for each page. */
export function browserOfFile(): () => Promise<Page> {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: pathOfChromium(), args: ["--no-sandbox"] });
  });
  afterAll(() => browser?.close());
  return async () => {
    if (browser === undefined) throw new Error("the browser of this file has not started");
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    return context.newPage();
  };
}

/**
 * Acts in the SDK's frame so that the frame goes. The browser does not always acknowledge an input event whose frame
 * that event removed, so only the removal is awaited.
 */
export async function closesFrame(page: Page, act: () => Promise<unknown>): Promise<void> {
  act().catch(() => {});
  await page.locator("#connect-ui").waitFor({ state: "detached", timeout: 30_000 });
}

/** A customer's application: one page with the published frontend SDK, on its own origin. */
export async function startApplication({ isSameSite = false } = {}): Promise<string> {
  const bundled = await build({
    stdin: { contents: 'export { default } from "@nangohq/frontend";', resolveDir: import.meta.dirname },
    bundle: true,
    format: "iife",
    globalName: "Frontend",
    write: false,
  });
  const script = bundled.outputFiles[0]?.text ?? "";
  const server = createServer((request, response) => {
    const isScript = request.url === "/sdk.js";
    response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
    response.end(
      isScript ? script : '<!doctype html><title>App</title><script src="/sdk.js"></script><button>Connect</button>',
    );
  });
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const origin = describeListener(server, false);
  // A different site than the sidecar's, as for most applications. A port alone does not make another site.
  return isSameSite ? origin : origin.replace("127.0.0.1", "localhost");
}
