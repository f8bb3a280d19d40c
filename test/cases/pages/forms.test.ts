import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import type { Page, Route } from "playwright-core";
import { describe, expect, it } from "vitest";
import { browserOfFile, closesFrame, startApplication } from "../../support/peers/chromium.ts";
import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { inputIn, sentForm } from "./form.ts";

const oauth = { client_id: "sandbox", client_secret: { env: "APP_SECRET" } };
const at = (provider: string, more: object = {}) => ({ environment: "dev", key: provider, provider, ...more });
const firstPart = "Enter only the first part of your address, for example acme for acme.zendesk.com.";

/** Providers that ask for a field, in the sandbox. A suffix is nothing that a browser checks. */
const providers = (origin: string) => {
  const proxy = { base_url: origin.replace("http:", "https:") };
  const site = { name: "site", title: "Site", suffixes: ["crm.example"], required: true };
  const endpoints = { authorization_url: `${origin}/oauth2/auth`, token_url: `${proxy.base_url}/oauth2/token` };
  return [
    { name: "crm", display_name: "CRM", oauth2: endpoints, proxy, connection_fields: [site] },
    {
      name: "keyed",
      display_name: "Keyed",
      api_key: { header: "x-api-key" },
      proxy,
      verification: { request: { method: "GET", path: "/api/me" } },
      connection_fields: [site],
    },
  ];
};
const integrations = [
  at("zendesk", { oauth }),
  at("crm", { oauth }),
  at("keyed"),
  at("private-api-key"),
  at("private-api-basic"),
];
const started = (options: Parameters<typeof connecting>[0] = {}) => connecting({ providers, integrations, ...options });

const linkOf = async (all: Connecting, key: string, more: object = {}): Promise<string> =>
  `${all.sidecar.data}/connect/?session_token=${await all.session({ allowed_integrations: [key], ...more })}`;

/** Sends the form of a page that a POST is for. */
async function post(all: Connecting, key: string, values: Record<string, string>) {
  const browser = all.browser();
  const url = await linkOf(all, key);
  const first = await browser.go(url);
  const response = await browser.post(`${all.sidecar.data}/connect/`, sentForm(first.text, values));
  return { response, text: await response.text() };
}

describe("a form that cannot be taken is shown again", () => {
  it("on the way to a provider, with the entered and the requested values", async () => {
    const all = await started();
    const token = await all.session();
    const bad = "acme.zendesk.com";
    const url = departure(
      all,
      token,
      { "params[subdomain]": bad, user_scope: "write", "authorization_params[prompt]": "none" },
      "zendesk",
    );
    const browser = all.browser();
    const page = await browser.go(url);
    expect([page.status, page.headers.get("latchkey-error")]).toEqual([400, "invalid_query_params"]);
    expect(inputIn(page.text, "params[subdomain]")).toEqual({
      value: bad,
      isInvalid: true,
      hasFocus: true,
      descriptions: [firstPart, "The account's name before .zendesk.com."],
    });
    const mended = sentForm(page.text, { "params[subdomain]": "acme" });
    const [, action = ""] = /<form [^>]*action="([^"]*)"/.exec(page.text) ?? [];
    const location = (await browser.get(`${new URL(action, url)}?${mended}`)).headers.get("location") ?? "";
    expect(location).toMatch(/^https:\/\/acme\.zendesk\.com\/oauth\/authorizations\/new\?/);
    expect(new URL(location).searchParams.get("scope")).toContain("write");
    expect(new URL(location).searchParams.get("prompt")).toBe("none");
  });

  it("where a required field is empty, with an example", async () => {
    const all = await started();
    const page = await all.browser().go(departure(all, await all.session(), {}, "zendesk"));
    expect(inputIn(page.text, "params[subdomain]")).toMatchObject({
      isInvalid: true,
      descriptions: ["Fill in this field, for example acme.", expect.any(String)],
    });
  });

  it("when latchkey refuses a value that a browser accepted, without the key in the page", async () => {
    const all = await started();
    const { response, text } = await post(all, "keyed", { "params[site]": "evil.test", apiKey: "a-secret-key" });
    expect([response.status, response.headers.get("latchkey-error")]).toEqual([400, "invalid_query_params"]);
    expect(inputIn(text, "params[site]")).toEqual({
      value: "evil.test",
      isInvalid: true,
      hasFocus: true,
      descriptions: ["Enter a host name that ends in crm.example."],
    });
    expect(inputIn(text, "apiKey")).toMatchObject({ isInvalid: false, hasFocus: false, value: undefined });
    expect(text).not.toContain("a-secret-key");
    expect(await all.connections()).toEqual([]);
  });

  it("when a value of the right form makes no valid address", async () => {
    const all = await started();
    const host = "api.example.com:99999";
    const { response, text } = await post(all, "private-api-key", { "params[host]": host, apiKey: "a-secret-key" });
    expect(response.status).toBe(400);
    expect(inputIn(text, "params[host]")).toMatchObject({ value: host, isInvalid: true, hasFocus: true });
    expect(await all.connections()).toEqual([]);
  });

  it("where credentials are left out", async () => {
    const all = await started();
    const key = await post(all, "sandbox-api-key", { apiKey: "" });
    expect(inputIn(key.text, "apiKey")).toMatchObject({ isInvalid: true, descriptions: ["Fill in this field."] });
    const basic = await post(all, "sandbox-basic", {});
    expect(inputIn(basic.text, "username")).toMatchObject({
      isInvalid: true,
      hasFocus: true,
      descriptions: ["Enter the user name, the password, or both."],
    });
    const client = await post(all, "sandbox-client-credentials", { client_id: "mine" });
    expect(inputIn(client.text, "client_id")).toMatchObject({ value: "mine", isInvalid: false });
    expect(inputIn(client.text, "client_secret")).toMatchObject({ isInvalid: true, hasFocus: true });
  });

  it.each([
    ["sandbox-api-key", { apiKey: "a-wrong-secret" }, {}],
    ["sandbox-basic", { username: "sandbox", password: "a-wrong-secret" }, { username: "sandbox" }],
    ["sandbox-basic", { username: "a-wrong-secret" }, { username: "" }],
    ["sandbox-client-credentials", { client_id: "sandbox", client_secret: "a-wrong-secret" }, { client_id: "sandbox" }],
  ])("where the provider refuses the credentials (%s)", async (key, values, kept: Record<string, string>) => {
    const all = await started();
    const { response, text } = await post(all, key, values);
    expect([response.status, response.headers.get("latchkey-error")]).toEqual([400, "connection_test_failed"]);
    for (const [i, name] of Object.keys(values).entries()) {
      expect(inputIn(text, name)).toMatchObject({ isInvalid: true, hasFocus: i === 0, value: kept[name] });
      expect(inputIn(text, name).descriptions).toHaveLength(1);
    }
    expect(text).not.toContain("a-wrong-secret");
    expect(text).toContain("does not accept these credentials. Nothing was stored.");
  });

  it("where the provider cannot be reached", async () => {
    const all = await started();
    await all.sandbox.close();
    const { response, text } = await post(all, "sandbox-client-credentials", {
      client_id: "sandbox",
      client_secret: "sandbox-secret",
    });
    expect([response.status, response.headers.get("latchkey-error")]).toEqual([502, "provider_unreachable"]);
    expect(inputIn(text, "client_id")).toMatchObject({ value: "sandbox", isInvalid: false });
    expect(text).toContain("could not be reached. Check what you entered, or try again in a moment.");
  });

  it("with the values of a link, of which the wrong one is marked", async () => {
    const all = await started();
    const link = await linkOf(all, "zendesk");
    const good = await all.browser().go(`${link}&params[subdomain]=acme`);
    expect([good.status, inputIn(good.text, "params[subdomain]")]).toEqual([
      200,
      { value: "acme", isInvalid: false, hasFocus: false, descriptions: ["The account's name before .zendesk.com."] },
    ]);
    const bad = await all.browser().go(`${await linkOf(all, "zendesk")}&params[subdomain]=Acme!`);
    expect([bad.status, inputIn(bad.text, "params[subdomain]")]).toEqual([
      400,
      expect.objectContaining({ value: "Acme!", isInvalid: true, hasFocus: true }),
    ]);
  });

  it("and when a link names an unavailable integration, the choice", async () => {
    const all = await started();
    const token = await all.session({ allowed_integrations: ["keyed", "sandbox-files"] });
    const page = await all.browser().go(`${all.sidecar.data}/connect/?session_token=${token}&integration=nope`);
    expect([page.status, page.headers.get("latchkey-error")]).toEqual([404, "unknown_provider_config"]);
    for (const text of ["The link asks for an account", "Keyed", "Sandbox: file storage"]) {
      expect(page.text).toContain(text);
    }
  });
});

describe.skipIf(lacks("chromium"))("in a browser", () => {
  const newPage = browserOfFile();

  async function withoutScripts(): Promise<Page> {
    const context = await (await newPage()).context().browser()?.newContext({ javaScriptEnabled: false });
    const page = await context?.newPage();
    if (page === undefined) throw new Error("no page");
    return page;
  }

  /** Sends a window's request. The window closes, since the frame hears of the failure, before the response is there. */
  async function loseResponse(route: Route): Promise<void> {
    const sent = route.request();
    // Those that the browser adds after this.
    const metadata = { "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    const request = get(sent.url(), { headers: { ...sent.headers(), ...metadata } });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    response.resume();
    await route.abort().catch(() => {});
  }

  const focused = (page: Page) => page.locator(":focus").getAttribute("name");

  it("says at the field what to enter, before anything is sent", async () => {
    const all = await started();
    const page = await newPage();
    await page.goto(await linkOf(all, "zendesk"));
    const field = page.getByLabel("Subdomain");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Fill in this field, for example acme.").waitFor();
    await field.fill("acme.zendesk.com");
    expect(await field.getAttribute("aria-invalid")).toBeNull();
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText(firstPart).waitFor();
    expect([await field.getAttribute("aria-invalid"), await focused(page)]).toEqual(["true", "params[subdomain]"]);
    expect(await field.inputValue()).toBe("acme.zendesk.com");
    await field.fill("acme");
    expect(await page.getByText(firstPart).isVisible()).toBe(false);
  });

  it.each(["with scripts", "without scripts"])("shows the form again after latchkey refused it (%s)", async (how) => {
    const all = await started();
    const page = how === "with scripts" ? await newPage() : await withoutScripts();
    await page.goto(await linkOf(all, "keyed"));
    await page.getByLabel("Site").fill("evil.test");
    await page.getByLabel("API key").fill("sandbox-api-key");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Enter a host name that ends in crm.example.").waitFor();
    expect([await focused(page), await page.getByLabel("Site").inputValue()]).toEqual(["params[site]", "evil.test"]);
    await page.getByLabel("Site").fill("acme.crm.example");
    await page.getByLabel("API key").fill("a-wrong-key");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Keyed does not accept these credentials.").waitFor();
    expect(await focused(page)).toBe("apiKey");
    await page.getByLabel("API key").fill("sandbox-api-key");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Keyed is connected").waitFor();
  });

  it.each(["with scripts", "without scripts"])("and on the way to a provider (%s)", async (how) => {
    const all = await started({ sandbox: { behaviour: { consent: "ask" } } });
    const page = how === "with scripts" ? await newPage() : await withoutScripts();
    await page.goto(await linkOf(all, "crm"));
    await page.getByLabel("Site").fill("evil.test");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByText("Enter a host name that ends in crm.example.").waitFor();
    expect([await focused(page), await page.getByLabel("Site").inputValue()]).toEqual(["params[site]", "evil.test"]);
    await page.getByLabel("Site").fill("acme.crm.example");
    await page.getByRole("button", { name: "Connect" }).click();
    await page.getByRole("button", { name: "Allow" }).click();
    await page.getByText("CRM is connected").waitFor();
    const [item] = await all.connections();
    expect(await all.connection("crm", item?.connection_id ?? "")).toMatchObject({
      connection_config: { site: "acme.crm.example" },
    });
  });

  it("and after a link of another site, in its language", async () => {
    const elsewhere = await startApplication();
    const all = await started({ sandbox: { behaviour: { consent: "ask" } } });
    const page = await newPage();
    await page.goto(elsewhere);
    const url = departure(all, await all.session(), { "params[site]": "evil.test", lang: "es" }, "crm");
    await page.evaluate(`location.href = ${JSON.stringify(url)}; undefined`);
    await page.getByText("pide conectar su cuenta de CRM").waitFor();
    await page.getByRole("button", { name: "Conectar" }).click();
    await page.getByText("Introduzca un nombre de host que termine en crm.example.").waitFor();
    expect([await focused(page), await page.getByLabel("Sitio").inputValue()]).toEqual(["params[site]", "evil.test"]);
    await page.getByLabel("Sitio").fill("acme.crm.example");
    await page.getByRole("button", { name: "Conectar" }).click();
    await page.getByRole("button", { name: "Allow" }).click();
    await page.getByText("CRM está conectado").waitFor();
    expect(await page.locator("html").getAttribute("lang")).toBe("es");
  });

  it("and in the frontend SDK's frame, which also shows other errors", async () => {
    const origin = await startApplication();
    const all = await started({ origin, sandbox: { behaviour: { consent: "ask" } } });
    const page = await newPage();
    await page.goto(origin);
    const token = await all.session({ allowed_integrations: ["crm"] });
    await page.evaluate(`window.events = []; new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
      .openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)}, onEvent: (event) => window.events.push(event) }); undefined`);
    const frame = page.frameLocator("#connect-ui");
    await frame.getByLabel("Site").fill("evil.test");
    const closed = page.waitForEvent("popup").then((popup) => popup.waitForEvent("close"));
    await page.context().route("**/oauth/connect/**", loseResponse, { times: 1 });
    await frame.getByRole("button", { name: "Connect" }).click();
    await frame.getByText("Enter a host name that ends in crm.example.").waitFor();
    await closed;
    expect(await frame.getByLabel("Site").getAttribute("aria-invalid")).toBe("true");
    expect(await frame.locator(":focus").getAttribute("name")).toBe("params[site]");
    await frame.getByLabel("Site").fill("acme.crm.example");
    const popup = page.waitForEvent("popup");
    await frame.getByRole("button", { name: "Connect" }).click();
    const deny = (await popup).getByRole("button", { name: "Deny" });
    await deny.waitFor();
    // The window closes by itself, perhaps before the click is reported as done.
    await Promise.allSettled([deny.click()]);
    await frame.getByText("Access was not allowed.").waitFor();
    const [, refused, denied] = (await page.evaluate("window.events")) as { payload: { errorType: string } }[];
    expect([refused?.payload.errorType, denied?.payload.errorType]).toEqual(["invalid_query_params", "denied"]);
  });

  it("shows a session that is over in the frame as well, with a way out", async () => {
    const origin = await startApplication();
    const all = await started({ origin });
    const page = await newPage();
    await page.goto(origin);
    const token = `lk_connect_${"x".repeat(32)}`;
    await page.evaluate(`new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
      .openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)} }); undefined`);
    const frame = page.frameLocator("#connect-ui");
    await frame.getByText("This link has been used already, or is too old.").waitFor();
    await closesFrame(page, () => frame.getByRole("button", { name: "Close" }).click());
  });
});
