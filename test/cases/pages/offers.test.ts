import { describe, expect, it } from "vitest";
import { browserOfFile, startApplication } from "../../support/peers/chromium.ts";
import { appOrigin, type Connecting, connecting } from "../../support/sidecar/connecting.ts";
import { head, openWire } from "../../support/sidecar/door.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { visibleText } from "./form.ts";

const unset = { environment: "dev", key: "github", provider: "github" };
/** A provider whose credentials can only be imported. */
const imported = [{ name: "imported", display_name: "Imported", app: { token_url: "https://a.example/token" } }];
const integrations = [unset, { environment: "dev", key: "imported", provider: "imported" }];
const started = (options: Parameters<typeof connecting>[0] = {}) =>
  connecting({ integrations, providers: () => imported, ...options });

const shown = async ({ session, sidecar, browser }: Connecting, more: object, query = "") =>
  browser().go(`${sidecar.data}/connect/?session_token=${await session(more)}${query}`);

it("offers nothing that cannot be connected", async () => {
  const all = await started();
  const { text } = await shown(all, {});
  expect(text).toContain("Sandbox: file storage");
  expect(text).not.toContain("GitHub");
  expect(text).not.toContain("Imported");
  // Only one is left, so that there is nothing to choose.
  const single = await shown(all, { allowed_integrations: ["github", "imported", "sandbox-files"] });
  expect(single.text).toContain("Connect Sandbox: file storage</h1>");
});

it("explains an unavailable integration before any click, if a link is only for it", async () => {
  const all = await started();
  for (const [page, reason] of [
    [await shown(all, { allowed_integrations: ["github"] }), 'The integration "github" has no client id.'],
    [await shown(all, {}, "&integration=github"), 'The integration "github" has no client id.'],
    [await shown(all, { allowed_integrations: ["imported"] }), "uses credentials that can only be imported"],
  ] as const) {
    expect([page.status, page.headers.get("latchkey-error")]).toEqual([400, "integration_misconfigured"]);
    expect(visibleText(page.text)).toContain(reason);
    expect(page.text).not.toContain("<form");
  }
  const none = await shown(all, { allowed_integrations: ["github", "imported"] });
  expect(visibleText(none.text)).toContain("There is nothing to connect here.");
  expect(visibleText(none.text)).toContain('The integration "github" has no client id.');
});

describe("the address without /connect", () => {
  it("continues a frame, and greets programs and people", async () => {
    const all = await started();
    const get = (path: string, headers: Record<string, string> = {}) =>
      fetch(`${all.sidecar.data}${path}`, { redirect: "manual", headers });
    const wire = await openWire(all.sidecar.data);
    const framed = ["sec-fetch-dest: iframe", "sec-fetch-mode: navigate", "sec-fetch-site: cross-site"];
    const lines = ["host: localhost", "connection: close", `referer: ${appOrigin}/`, ...framed];
    wire.send(head("GET /?lang=de HTTP/1.1", ...lines));
    expect(await wire.ended).toMatch(/^HTTP\/1\.1 303 .*\r\nlocation: connect\/\?lang=de\r\n/is);
    const program = await get("/");
    expect([program.status, await program.json()]).toMatchObject([200, { name: "latchkey" }]);
    const person = await get("/", { accept: "text/html" });
    expect([person.status, await person.text()]).toEqual([200, expect.stringContaining("<h1>Latchkey</h1>")]);
  });
});

describe.skipIf(lacks("chromium"))("@nangohq/frontend in a browser", () => {
  const newPage = browserOfFile();

  async function open(options: { readonly isListed: boolean; readonly path: string }) {
    const origin = await startApplication();
    const all = await started(options.isListed ? { origin } : {});
    const page = await newPage();
    await page.goto(origin);
    const token = await all.session({ allowed_integrations: ["sandbox-files"] });
    await page.evaluate(`new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
      .openConnectUI({ baseURL: ${JSON.stringify(all.sidecar.data + options.path)} }); undefined`);
    return { frame: page.frameLocator("#connect-ui"), origin };
  }

  it.each(["", "/", "/connect", "/connect/"])("opens the page where the address ends in %j", async (path) => {
    const { frame } = await open({ isListed: true, path });
    await frame.getByRole("button", { name: "Connect" }).waitFor();
  });

  it.each(["", "/connect"])("shows in the frame which origin to allow (%j)", async (path) => {
    const { frame, origin } = await open({ isListed: false, path });
    await frame.getByText(`The page that opened this frame is of ${origin}.`).waitFor();
    await frame.getByText("Add its origin to allowed_origins").waitFor();
    expect(await frame.getByRole("button").count()).toBe(0);
  });
});
