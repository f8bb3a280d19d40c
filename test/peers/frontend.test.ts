import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { browserOfFile, closesFrame, startApplication } from "../support/peers/chromium.ts";
import { type Connecting, connecting, departure } from "../support/sidecar/connecting.ts";
import { lacks } from "../support/sidecar/needs.ts";

const shots = process.env["LATCHKEY_TEST_SHOTS"];
const look = async (page: Page, name: string) => {
  if (shots !== undefined) await page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
};

const linkOf = async ({ sidecar }: Connecting, body: object = {}): Promise<string> =>
  (
    await sidecar.rest("POST", "/connect/sessions", {
      body: { end_user: { id: "ada", display_name: "Ada Lovelace" }, ...body },
    })
  ).body.data.connect_link;

const proven = (origin: string) => [
  {
    name: "proven",
    display_name: "Proven",
    api_key: { header: "x-api-key" },
    proxy: { base_url: origin.replace("http:", "https:") },
    verification: { request: { method: "GET", path: "/api/me" } },
    connection_fields: [
      {
        name: "account",
        title: "Account",
        description: "As in the address of your account.",
        example: "acme",
        pattern: "[a-z]+",
        required: true,
      },
    ],
  },
];
const provenHere = { environment: "dev", key: "proven", provider: "proven" };

describe.skipIf(lacks("chromium"))("in a browser", () => {
  const newPage = browserOfFile();

  describe("the page behind a connect_link", () => {
    it("connects an account at a provider, with nothing but links and buttons", async () => {
      const all = await connecting({ sandbox: { behaviour: { consent: "ask" } } });
      const page = await newPage();
      await page.goto(await linkOf(all));
      await look(page, "choose");
      expect(await page.getByText("Ada Lovelace").count()).toBe(1);
      await page.getByRole("link", { name: "Sandbox: file storage" }).click();
      await look(page, "oauth");
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Allow" }).waitFor();
      await look(page, "consent");
      await page.getByRole("radio", { name: "Grace" }).check();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("Sandbox: file storage is connected").waitFor();
      await look(page, "connected");
      expect(page.url().startsWith(`${all.sidecar.data}/oauth/callback`)).toBe(true);
      expect(await all.connections()).toMatchObject([
        { provider_config_key: "sandbox-files", end_user: { id: "ada" } },
      ]);
      // Goes back, and sends again what was already used.
      await page.goto(page.url());
      await page.getByText("has been used already").waitFor();
      await look(page, "used");
    });

    it.each(["sandbox-api-key", "sandbox-files"])(
      "sends the browser back to the application at the end (%s)",
      async (key) => {
        const application = await startApplication();
        const all = await connecting({ origin: application });
        const page = await newPage();
        const link = await linkOf(all, { allowed_integrations: [key] });
        await page.goto(`${link}&return_to=${encodeURIComponent(`${application}/done`)}`);
        if (key === "sandbox-api-key") await page.getByLabel("API key").fill(key);
        await page.getByRole("button", { name: "Connect" }).click();
        await page.waitForURL(`${application}/done?provider_config_key=${key}&connection_id=*`, { timeout: 30_000 });
        expect(await all.connections()).toHaveLength(1);
      },
    );

    it.each([
      ["Allow", true],
      ["Deny", true],
      ["Allow", false],
    ])(
      "sends it back from a consent page that binds its form to this origin (%s, scripts: %s)",
      async (answer, scripts) => {
        const application = await startApplication();
        const all = await connecting({ origin: application, sandbox: { behaviour: { consent: "ask" } } });
        const context = await (await newPage()).context().browser()?.newContext({ javaScriptEnabled: scripts });
        const page = await context?.newPage();
        if (page === undefined) throw new Error("no page");
        const link = await linkOf(all, { allowed_integrations: ["sandbox-files"] });
        await page.goto(`${link}&return_to=${encodeURIComponent(`${application}/done?a=1&b=2`)}`);
        await page.getByRole("button", { name: "Connect" }).click();
        await page.getByRole("button", { name: answer }).click();
        await page.waitForURL(`${application}/done?a=1&b=2&provider_config_key=sandbox-files&*`, { timeout: 30_000 });
        await context?.close();
        expect(await all.connections()).toHaveLength(answer === "Allow" ? 1 : 0);
      },
    );

    it.each([
      ["another site", false],
      ["the application's own site", true],
    ])("shows the requesting app before a link on a page of %s leads to a provider", async (_, isSameSite) => {
      const elsewhere = await startApplication({ isSameSite });
      const all = await connecting({ origin: elsewhere, sandbox: { behaviour: { consent: "ask" } } });
      const token = await all.session({ end_user: { id: "eve", email: "eve@evil.test" } });
      const page = await newPage();
      await page.goto(elsewhere);
      await page.evaluate(`location.href = ${JSON.stringify(departure(all, token))}; undefined`);
      await page.getByText("eve@evil.test").waitFor();
      expect(page.url().startsWith(all.sidecar.data)).toBe(true);
      // A user who agrees continues, and owns the link.
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Allow" }).waitFor();
      const other = await newPage();
      await other.goto(departure(all, token));
      await other.getByText("belongs to the browser in which it was used first").waitFor();
      await look(other, "other-browser");
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("is connected").waitFor();
    });

    it("refuses a link in a second browser", async () => {
      const all = await connecting();
      const link = await linkOf(all);
      await (await newPage()).goto(link);
      const second = await newPage();
      await second.goto(link);
      await second.getByText("belongs to the browser in which it was used first").waitFor();
      expect(await second.getByRole("button").count()).toBe(0);
    });

    it("works where no script runs", async () => {
      const all = await connecting({ sandbox: { behaviour: { consent: "ask" } } });
      const context = await (await newPage()).context().browser()?.newContext({ javaScriptEnabled: false });
      const page = await context?.newPage();
      if (page === undefined) throw new Error("no page");
      await page.goto(await linkOf(all, { allowed_integrations: ["sandbox-files"] }));
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("is connected").waitFor();
      await context?.close();
      expect(await all.connections()).toHaveLength(1);
    });

    it("reports denied access, and allows another try", async () => {
      const all = await connecting({ sandbox: { behaviour: { consent: "ask" } } });
      const page = await newPage();
      const link = await linkOf(all, { allowed_integrations: ["sandbox-files"] });
      await page.goto(link);
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByText("Access was not allowed").waitFor();
      await look(page, "denied");
      expect(await all.connections()).toEqual([]);
      await page.goto(link);
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("is connected").waitFor();
    });

    it("accepts an API key with its required fields, and marks the wrong one", async () => {
      const all = await connecting({ providers: proven, integrations: [provenHere] });
      const page = await newPage();
      await page.setViewportSize({ width: 360, height: 640 });
      await page.emulateMedia({ colorScheme: "dark" });
      await page.goto(await linkOf(all, { allowed_integrations: ["proven"] }));
      await page.getByLabel("Account").fill("acme");
      await page.getByLabel("API key").fill("a-wrong-key");
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByText("does not accept these credentials").waitFor();
      await look(page, "refused-phone-dark");
      expect(await page.getByLabel("Account").inputValue()).toBe("acme");
      expect(await page.content()).not.toContain("a-wrong-key");
      await page.getByLabel("API key").fill("sandbox-api-key");
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByText("Proven is connected").waitFor();
      await look(page, "connected-phone-dark");
      const [item] = await all.connections();
      expect(await all.connection("proven", item?.connection_id ?? "")).toMatchObject({
        connection_config: { account: "acme" },
      });
    });

    it("takes a user name and a password", async () => {
      const all = await connecting();
      const page = await newPage();
      await page.goto(await linkOf(all, { allowed_integrations: ["sandbox-basic"] }));
      await page.getByLabel("User name").fill("sandbox");
      await page.getByLabel("Password").fill("sandbox-password");
      await look(page, "basic");
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByText("is connected").waitFor();
    });

    it("reports an expired link", async () => {
      let now = Date.now();
      const all = await connecting({ sidecar: { now: () => now } });
      const link = await linkOf(all);
      now += 31 * 60_000;
      const page = await newPage();
      await page.goto(link);
      await page.getByText("too old").waitFor();
      await look(page, "expired");
    });

    it("violates no rule of its own policy, on any page", async () => {
      const all = await connecting({ sandbox: { behaviour: { consent: "ask" } } });
      const page = await newPage();
      const broken: string[] = [];
      page.on("console", (message) => {
        if (message.type() === "error") broken.push(message.text());
      });
      await page.goto(await linkOf(all));
      const font = await page.evaluate("getComputedStyle(document.body).fontFamily");
      expect(font).toContain("system-ui");
      await page.getByRole("link", { name: "Sandbox: file storage" }).click();
      await page.getByRole("button", { name: "Connect" }).click();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("is connected").waitFor();
      expect(broken).toEqual([]);
    });
  });

  describe("@nangohq/frontend as it is published", () => {
    async function application(options: Parameters<typeof connecting>[0] = {}, { isSameSite = false } = {}) {
      const origin = await startApplication({ isSameSite });
      const all = await connecting({ ...options, origin });
      const page = await newPage();
      await page.goto(origin);
      return { all, page, origin };
    }

    /** Agrees in the next window that `page` opens. The window may close before the click is reported. */
    const agreeIn = async (page: Page) => {
      const opened = await page.waitForEvent("popup");
      const clicked = opened.getByRole("button", { name: "Connect" }).click();
      await Promise.any([clicked, opened.waitForEvent("close")]);
    };

    /** The outcome of `call` in the page, fulfilled or rejected. */
    const outcome = (page: Page, call: string): Promise<unknown> =>
      page.evaluate(`(async () => ${call})().catch((error) => ({ type: error.type, message: error.message }))`);
    const sdk = (all: Connecting, token: string) =>
      `new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: ${JSON.stringify(token)} })`;

    it("completes auth() in its own window", async () => {
      const { all, page } = await application({ sandbox: { behaviour: { consent: "ask" } } });
      const popup = page.waitForEvent("popup");
      const result = outcome(page, `${sdk(all, await all.session())}.auth("sandbox-files")`);
      const opened = await popup;
      await opened.getByText("asks to connect your Sandbox: file storage account").waitFor();
      await look(opened, "confirm");
      await opened.getByRole("button", { name: "Connect" }).click();
      await opened.getByRole("button", { name: "Allow" }).click();
      const [item] = await until(() => all.connections());
      expect(await result).toEqual({
        providerConfigKey: "sandbox-files",
        connectionId: item?.connection_id,
        isPending: false,
      });
    });

    it("needs no click more where the application is of the same site, and waits in the same browser", async () => {
      const { all, page } = await application({}, { isSameSite: true });
      const call = `${sdk(all, await all.session())}.auth("sandbox-files")`;
      expect(await outcome(page, call)).toMatchObject({ providerConfigKey: "sandbox-files" });
      expect(await all.connections()).toHaveLength(1);
    });

    it("receives a denial", async () => {
      const { all, page } = await application({ sandbox: { behaviour: { consent: "deny" } } });
      const call = `${sdk(all, await all.session())}.auth("sandbox-files")`;
      const [result] = await Promise.all([outcome(page, call), agreeIn(page)]);
      expect(result).toEqual({ type: "denied", message: "Access was not allowed." });
    });

    it("receives an expired session before any redirect", async () => {
      const { all, page } = await application();
      const result = await outcome(page, `${sdk(all, `lk_connect_${"x".repeat(32)}`)}.auth("sandbox-files")`);
      expect(result).toMatchObject({ type: "unknown_session" });
    });

    it("connects by an API key, a password and the user's own client, and receives the errors", async () => {
      const { all, page } = await application({ providers: proven, integrations: [provenHere] });
      const by = async (integration: string, credentials: object, more: object = {}) =>
        outcome(
          page,
          `${sdk(all, await all.session())}.auth(${JSON.stringify(integration)}, ${JSON.stringify({ credentials, ...more })})`,
        );
      const params = { params: { account: "acme" } };
      expect(await by("proven", { apiKey: "sandbox-api-key" }, params)).toMatchObject({ providerConfigKey: "proven" });
      expect(await by("sandbox-basic", { username: "sandbox", password: "sandbox-password" })).toMatchObject({
        providerConfigKey: "sandbox-basic",
      });
      expect(
        await by("sandbox-client-credentials", { client_id: "sandbox", client_secret: "sandbox-secret" }),
      ).toMatchObject({
        providerConfigKey: "sandbox-client-credentials",
      });
      expect(await by("proven", { apiKey: "wrong" }, params)).toMatchObject({ type: "connection_test_failed" });
      expect(await all.connections()).toHaveLength(3);
    });

    it("reconnects an existing connection", async () => {
      const { all, page } = await application();
      const call = `${sdk(all, await all.session())}.auth("sandbox-files")`;
      const [result] = await Promise.all([outcome(page, call), agreeIn(page)]);
      const first = result as { connectionId: string };
      const token = await all.reconnectSession(first.connectionId);
      const recall = `${sdk(all, token)}.reconnect("sandbox-files")`;
      const [again] = await Promise.all([outcome(page, recall), agreeIn(page)]);
      expect(again).toMatchObject({ connectionId: first.connectionId });
      expect(await all.connections()).toHaveLength(1);
    });

    it("opens the connect page in its frame, from which OAuth opens a window", async () => {
      const { all, page } = await application({ sandbox: { behaviour: { consent: "ask" } } });
      const token = await all.session({ allowed_integrations: ["sandbox-files"] });
      await page.evaluate(`window.events = []; ${sdk(all, token)}.openConnectUI({
        baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)}, apiURL: ${JSON.stringify(all.sidecar.data)},
        onEvent: (event) => window.events.push(event),
      }); undefined`);
      const frame = page.frameLocator("#connect-ui");
      const popup = page.waitForEvent("popup");
      await frame.getByRole("button", { name: "Connect" }).click();
      const opened = await popup;
      await opened.getByRole("button", { name: "Allow" }).click();
      await frame.getByText("is connected").waitFor();
      await look(page, "frame");
      const [item] = await all.connections();
      const payload = { providerConfigKey: "sandbox-files", connectionId: item?.connection_id, isPending: false };
      expect(await page.evaluate("window.events")).toEqual([{ type: "ready" }, { type: "connect", payload }]);
      await closesFrame(page, () => frame.getByRole("button", { name: "Close" }).click());
    });

    it("takes an API key in its frame", async () => {
      const { all, page } = await application({ providers: proven, integrations: [provenHere] });
      const token = await all.session({ allowed_integrations: ["proven"] });
      await page.evaluate(`window.events = []; ${sdk(all, token)}.openConnectUI({
        baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)}, onEvent: (event) => window.events.push(event),
      }); undefined`);
      const frame = page.frameLocator("#connect-ui");
      await frame.getByLabel("Account").fill("acme");
      await frame.getByLabel("API key").fill("sandbox-api-key");
      await frame.getByRole("button", { name: "Connect" }).click();
      await frame.getByText("is connected").waitFor();
      expect(await page.evaluate("window.events.at(-1)")).toMatchObject({
        type: "connect",
        payload: { providerConfigKey: "proven" },
      });
    });

    it("fails auth() at once, in words, from a page that no environment allows", async () => {
      const origin = await startApplication();
      const all = await connecting();
      const page = await newPage();
      await page.goto(origin);
      const result = await outcome(page, `${sdk(all, await all.session())}.auth("sandbox-files")`);
      expect(result).toMatchObject({ type: "origin_not_allowed", message: expect.stringContaining(origin) });
      expect(all.sidecar.logged.join()).toContain(`"origin":"${origin}","environment":"dev"`);
    });

    it("connects without credentials by create()", async () => {
      const { all, page } = await application({
        providers: (at) => [{ name: "open", none: {}, proxy: { base_url: at.replace("http:", "https:") } }],
        integrations: [{ environment: "dev", key: "open", provider: "open" }],
      });
      const made = await outcome(page, `${sdk(all, await all.session())}.create("open", { params: { a: "b" } })`);
      const [item] = await all.connections();
      expect(made).toEqual({ providerConfigKey: "open", connectionId: item?.connection_id });
      expect(await all.connection("open", item?.connection_id ?? "")).toMatchObject({ credentials: { type: "NONE" } });
      const wrong = await outcome(page, `${sdk(all, await all.session())}.create("sandbox-files")`);
      expect(wrong).toMatchObject({ type: expect.stringMatching(/^[a-z_]+$/), message: expect.any(String) });
      expect(await outcome(page, `${sdk(all, "lk_connect_x")}.create("open")`)).toMatchObject({
        type: "unknown_session",
      });
      expect(await all.connections()).toHaveLength(1);
    });

    it("is refused from a page that no environment allows", async () => {
      const origin = await startApplication();
      const all = await connecting();
      const page = await newPage();
      await page.goto(origin);
      const token = await all.session();
      const credentials = { apiKey: "sandbox-api-key" };
      const options = JSON.stringify({ credentials });
      expect(await outcome(page, `${sdk(all, token)}.auth("sandbox-api-key", ${options})`)).toMatchObject({
        message: "Failed to fetch",
      });
      await page.evaluate(
        `${sdk(all, token)}.openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)} }); undefined`,
      );
      await page.waitForTimeout(500);
      expect(await page.frameLocator("#connect-ui").getByRole("button").count()).toBe(0);
      expect(await all.connections()).toEqual([]);
    });
  });
});

/** Returns the values once there are any. */
async function until<T>(read: () => Promise<readonly T[]>): Promise<readonly T[]> {
  for (let i = 0; i < 100; i += 1) {
    const found = await read();
    if (found.length > 0) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("nothing came");
}
