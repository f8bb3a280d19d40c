import { describe, expect, it } from "vitest";
import { browserOfFile, closesFrame, startApplication } from "../../support/peers/chromium.ts";
import { broughtBackTo, type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const linkOf = async (all: Connecting, more: object = {}): Promise<string> =>
  `${all.sidecar.data}/connect/?session_token=${await all.session({ end_user: { id: "bob" }, ...more })}`;
const integrations = [
  { environment: "dev", key: "notes", provider: "sandbox-api-key", display_name: "Café notes" },
  { environment: "dev", key: "more", provider: "sandbox-api-key", display_name: "Zebra" },
];

it("names the account that was connected, if the provider says its name", async () => {
  const oauth = { client_id: "sandbox", client_secret: { env: "APP_SECRET" } };
  const all = await connecting({
    providers: (origin) => {
      const base_url = origin.replace("http:", "https:");
      const endpoints = { authorization_url: `${origin}/oauth2/auth`, token_url: `${base_url}/oauth2/token` };
      const request = { method: "GET", path: "/oauth2/userinfo" };
      const describe = [{ request, value: "email", field: "metadata.email" }];
      const oauth2 = { ...endpoints, default_scopes: ["openid", "email"] };
      return [{ name: "named", oauth2, proxy: { base_url }, describe }];
    },
    integrations: [{ environment: "dev", key: "named", provider: "named", oauth }],
  });
  const page = await all.browser().go(departure(all, await all.session(), { lang: "de" }, "named"));
  expect(page.text).toContain("Konto: <strong>ada@example.com</strong>");
});

it("offers another try to no other browser", async () => {
  const all = await connecting({ sandbox: { behaviour: { consent: "deny" } } });
  const browser = all.browser();
  const answer = await broughtBackTo(all, browser, departure(all, await all.session()));
  const other = await all.browser().go(answer);
  expect(other.text).toContain("<code>other_browser</code>");
  expect(other.text).not.toContain("lk_connect_");
});

describe.skipIf(lacks("chromium"))("in a browser", () => {
  const newPage = browserOfFile();

  it("finds an integration by its name, and shows all without scripts", async () => {
    const all = await connecting({ integrations });
    const page = await newPage();
    await page.goto(await linkOf(all));
    const items = page.locator(".choices li");
    const count = await items.count();
    expect(count).toBeGreaterThanOrEqual(8);
    const search = page.getByRole("searchbox", { name: "Search" });
    await search.fill("FILES stor");
    expect(await items.filter({ visible: true }).count()).toBe(0);
    await search.fill("file STOR");
    expect(await items.filter({ visible: true }).allInnerTexts()).toEqual(["Sandbox: file storage"]);
    await search.fill("nothing like it");
    await page.getByText("Nothing matches.").waitFor();
    await search.press("Escape");
    expect(await items.filter({ visible: true }).count()).toBe(count);
    await search.fill("cafe");
    await search.press("Enter");
    await page.getByRole("heading", { name: "Connect Café notes" }).waitFor();

    const context = await page.context().browser()?.newContext({ javaScriptEnabled: false });
    const plain = await context?.newPage();
    await plain?.goto(await linkOf(all));
    expect(await plain?.locator(".choices li").filter({ visible: true }).count()).toBe(count);
    expect(await plain?.getByRole("searchbox").count()).toBe(0);
    await context?.close();
    const few = { allowed_integrations: ["notes", "more"] };
    await page.goto(await linkOf(all, few));
    expect(await page.getByRole("searchbox").count()).toBe(0);
  });

  it("puts the cursor into the first field, shows a secret, and sends a form once", async () => {
    const all = await connecting();
    const page = await newPage();
    const docs = { overrides: { "sandbox-api-key": { docs_connect: "https://docs.example.com/key" } } };
    await page.goto(await linkOf(all, { allowed_integrations: ["sandbox-api-key"], ...docs }));
    const field = page.getByLabel("API key", { exact: true });
    expect(await page.locator(":focus").getAttribute("name")).toBe("apiKey");
    await page.keyboard.type("sandbox-api-key");
    await page.getByRole("button", { name: "Show" }).click();
    expect([await field.getAttribute("type"), await page.locator(":focus").getAttribute("name")]).toEqual([
      "text",
      "apiKey",
    ]);
    const help = page.getByRole("link", { name: "Where do I find my API key?" });
    expect(await help.getAttribute("href")).toBe("https://docs.example.com/key");
    await page.getByRole("button", { name: "Hide" }).click();
    expect(await field.getAttribute("type")).toBe("password");
    // The second attempt to send is prevented.
    const sent = await page.evaluate(`(() => {
      const [form, prevented] = [document.querySelector("form"), []];
      form.addEventListener("submit", (event) => prevented.push(event.defaultPrevented));
      form.requestSubmit();
      form.requestSubmit();
      return [prevented, document.querySelector("form button:not([type])").getAttribute("aria-busy")];
    })()`);
    expect(sent).toEqual([[false, true], "true"]);
    await page.getByText("Sandbox: API key is connected").waitFor();
  });

  it("tries again after a denial, in the same browser and only there", async () => {
    const all = await connecting({ sandbox: { behaviour: { consent: "ask" } } });
    const page = await newPage();
    await page.goto(`${await linkOf(all, { allowed_integrations: ["sandbox-files"] })}&lang=fr`);
    await page.getByRole("button", { name: "Connecter" }).click();
    await page.getByRole("button", { name: "Deny" }).click();
    await page.getByText("Code d’erreur : denied").waitFor();
    expect(await page.getByRole("link", { name: "Retour à app.example.com" }).count()).toBe(1);
    await page.getByRole("link", { name: "Réessayer" }).click();
    await page.getByRole("button", { name: "Connecter" }).click();
    await page.getByRole("button", { name: "Allow" }).click();
    await page.getByText("Sandbox: file storage est connecté").waitFor();
    expect(await page.getByRole("link", { name: "Réessayer" }).count()).toBe(0);
  });

  it("is a dialog over the application's page, which Escape closes", async () => {
    const origin = await startApplication();
    const all = await connecting({ origin });
    const page = await newPage();
    await page.goto(origin);
    const open = async () => {
      const token = await all.session({ allowed_integrations: ["sandbox-api-key"] });
      await page.evaluate(`new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
        .openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)} }); undefined`);
      return page.frameLocator("#connect-ui");
    };
    const frame = await open();
    await frame.getByRole("dialog", { name: "Connect Sandbox: API key" }).waitFor();
    expect(await frame.locator("html").evaluate("getComputedStyle(document.documentElement).backgroundColor")).toBe(
      "rgba(0, 0, 0, 0)",
    );
    await closesFrame(page, () => frame.getByLabel("API key", { exact: true }).press("Escape"));
    const again = await open();
    await closesFrame(page, () => again.getByRole("button", { name: "Close" }).click());
  });
});
