import { describe, expect, it } from "vitest";
import { faults } from "../../../src/base/fault.ts";
import { userFields } from "../../../src/core/dialect/connect-params.ts";
import { languages } from "../../../src/data-plane/pages/page-settings.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { browserOfFile, startApplication } from "../../support/peers/chromium.ts";
import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { sentForm, visibleText } from "./form.ts";

/** The texts of a language by path, without those of providers. */
function textsIn(language: string): Map<string, string> {
  const { provided: _, ...groups } = languages[language] ?? {};
  return new Map(
    Object.entries(groups).flatMap(([group, texts]) =>
      Object.entries(texts).map(([name, text]) => [`${group}.${name}`, text] as const),
    ),
  );
}
const english = textsIn("en");
const placeholders = (text = "") => (text.match(/\{\w+\}/g) ?? []).sort();
const others = Object.keys(languages).filter((language) => language !== "en");

describe("the texts", () => {
  it("exist in five languages", () => {
    expect(Object.keys(languages).sort()).toEqual(["de", "en", "es", "fr", "ja"]);
  });

  it.each(others)("are all there in %s, none empty and none in English", (language) => {
    const texts = textsIn(language);
    expect([...texts.keys()]).toEqual([...english.keys()]);
    const left = [...texts].filter(([path, text]) => text.trim() === "" || text === english.get(path));
    expect(left).toEqual([]);
    for (const [path, text] of texts) {
      expect({ path, placeholders: placeholders(text) }).toEqual({
        path,
        placeholders: placeholders(english.get(path)),
      });
    }
  });

  it.each(others)("of the catalogue's fields exist in %s", (language) => {
    const asked = [...loadCatalogue().values()].flatMap(({ connectionFields }) => userFields(connectionFields));
    expect(asked.length).toBeGreaterThan(5);
    const chosen = [...loadCatalogue().values()].flatMap(({ choices }) => choices);
    const wanted = [
      ...asked.flatMap(({ title, name, description }) => [title || name, description]),
      ...chosen.map(({ title, name }) => title || name),
    ];
    const { provided = {} } = languages[language] ?? {};
    expect(wanted.filter((text) => text !== "" && !Object.hasOwn(provided, text))).toEqual([]);
  });

  it("name only faults that there are", () => {
    const named = Object.keys(languages["en"]?.faults ?? {}).filter((code) => code !== "other");
    expect(named.filter((code) => !Object.hasOwn(faults, code))).toEqual([]);
  });
});

const integrations = [{ environment: "dev", key: "private-api-key", provider: "private-api-key" }];
const linkOf = async ({ session, sidecar }: Connecting, more: object, query = ""): Promise<string> =>
  `${sidecar.data}/connect/?session_token=${await session({ end_user: { id: "Ä" }, ...more })}${query}`;
const htmlTag = (page: string) => /<html [^>]*>/.exec(page)?.[0];

/** A page's text without names, which are not translated. */
const wordsOf = (page: string): string =>
  [" Sandbox: file storage", " Sandbox: API key", "app.example.com", "http:", "crm.example"].reduce(
    (text, name) => text.replaceAll(name, ""),
    visibleText(page.replace(/<details>.*?<\/details>/gs, "").replace(/<li><a .*?<\/a><\/li>/gs, "")),
  );
const englishWords =
  /(?<!\p{L})(the|you|your|this|that|not|were|and|enter|is|are|have|from|connect|account)(?!\p{L})/iu;

describe.each(others)("in %s", (language) => {
  const texts = languages[language];
  if (texts === undefined) throw new Error("no such language");
  const query = `&lang=${language}&theme=dark`;

  it("shows each page, and passes language and theme on from page to page", async () => {
    const all = await connecting({ integrations });
    const browser = all.browser();
    const seen: [string, string][] = [];
    const see = (name: string, text: string) => void seen.push([name, text]);
    const choose = await browser.go(await linkOf(all, {}, query));
    see("choose", choose.text);
    const [, toForm = ""] = /<a href="([^"]*integration=sandbox-files)"/.exec(choose.text) ?? [];
    const form = await browser.go(new URL(toForm.replaceAll("&amp;", "&"), choose.url).href);
    see("form", form.text);
    const away = `${all.sidecar.data}/oauth/connect/sandbox-files?${sentForm(form.text, {})}`;
    const connected = await browser.go(away);
    see("connected", connected.text);
    expect(connected.text).toContain(texts.result.connected.replace("{title}", "Sandbox: file storage"));
    see("used", (await browser.go(`${connected.url}&lang=${language}&theme=dark`)).text);

    all.sandbox.behave({ consent: "deny" });
    const denied = await all.browser().go(departure(all, await all.session(), { lang: language, theme: "dark" }));
    see("denied", denied.text);
    expect(denied.text).toContain(texts.failures.denied.replaceAll("'", "&#39;"));

    const token = await all.session({ allowed_integrations: ["private-api-key"] });
    const keyed = await all.browser().go(`${all.sidecar.data}/connect/?session_token=${token}${query}`);
    see("key", keyed.text);
    const [, action = ""] = /<form method="post" action="([^"]*)"/.exec(keyed.text) ?? [];
    const post = async (values: Record<string, string>) => {
      const url = new URL(action.replaceAll("&amp;", "&"), keyed.url).href;
      return (await all.browser().post(url, sentForm(keyed.text, values))).text();
    };
    see("key again", await post({ "params[host]": "nothing", apiKey: "" }));
    see("key used up", await post({ session_token: "lk_connect_none" }));
    see("not complete", (await all.browser().go(`${all.sidecar.data}/connect/?lang=${language}&theme=dark`)).text);

    for (const [name, text] of seen) {
      expect([name, htmlTag(text)]).toEqual([name, `<html lang="${language}" data-theme="dark">`]);
      expect([name, wordsOf(text)]).not.toEqual([name, expect.stringMatching(englishWords)]);
    }
  });

  it("uses the browser's languages by default", async () => {
    const all = await connecting();
    const link = await linkOf(all, {});
    const shown = async (acceptLanguage: string, more = "") => {
      const page = await fetch(`${link}${more}`, { headers: { "accept-language": acceptLanguage } });
      return htmlTag(await page.text());
    };
    const inIt = `<html lang="${language}" data-theme="system">`;
    expect(await shown(`nl, en;q=0.2, ${language};q=0.8, *;q=0.1`)).toBe(inIt);
    expect(await shown(`${language.toUpperCase()}-XX`)).toBe(inIt);
    expect(await shown(language, "&lang=tlh&theme=neon")).toBe(inIt);
    expect(await shown("nl", `&lang=${language}-XX&theme=system`)).toBe(inIt);
    expect(await shown(`${language};q=0, nl`)).toBe('<html lang="en" data-theme="system">');
  });
});

it("shows an outcome in the language in which the flow started", async () => {
  const all = await connecting();
  const url = departure(all, await all.session(), { lang: "ja", theme: "light" });
  expect(htmlTag((await all.browser().go(url)).text)).toBe('<html lang="ja" data-theme="light">');
});

it("tells a session's page its colors", async () => {
  const all = await connecting();
  const { body } = await all.sidecar.rest("GET", "/connect/session", { key: await all.session() });
  const { theme, defaultTheme } = body.data.connectUISettings;
  expect(defaultTheme).toBe("system");
  for (const name of ["light", "dark"]) {
    const page = await all.browser().go(await linkOf(all, {}, `&theme=${name}`));
    expect(theme[name].primary).toMatch(/^#[0-9a-f]{6}$/);
    expect(page.text).toContain(`--do:${theme[name].primary}`);
  }
});

it("links to the session's guide, if it is a web address", async () => {
  const all = await connecting();
  const overrides = { "sandbox-api-key": { docs_connect: "https://docs.example.com/key?a=1&b=2" } };
  const token = await all.session({ allowed_integrations: ["sandbox-api-key"], overrides });
  const page = await all.browser().go(`${all.sidecar.data}/connect/?session_token=${token}&lang=de`);
  expect(page.text).toContain('<a href="https://docs.example.com/key?a=1&amp;b=2" target="_blank" rel="noopener');
  expect(page.text).toContain("Wo finde ich meinen API-Schlüssel?");
  const { body } = await all.sidecar.rest("GET", "/connect/session", { key: token });
  expect(body.data.overrides).toEqual(overrides);
  const refused = await all.sidecar.rest("POST", "/connect/sessions", {
    body: { tags: { a: "b" }, overrides: { "sandbox-api-key": { docs_connect: "javascript:alert(1)" } } },
  });
  expect([refused.status, refused.body.error.errors[0].path]).toEqual([
    400,
    ["overrides", "sandbox-api-key", "docs_connect"],
  ]);
});

describe.skipIf(lacks("chromium"))("@nangohq/frontend in a browser", () => {
  const newPage = browserOfFile();

  it.each([
    ["de", "dark", "light"],
    ["fr", "light", "dark"],
    ["ja", "system", "dark"],
  ] as const)("gets the page in the language %s and the theme %s (of a %s system)", async (lang, theme, system) => {
    const origin = await startApplication();
    const all = await connecting({ origin });
    const page = await newPage();
    await page.emulateMedia({ colorScheme: system });
    await page.goto(origin);
    const token = await all.session({ allowed_integrations: ["sandbox-files"] });
    await page.evaluate(`new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
      .openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)}, lang: "${lang}", themeOverride: "${theme}" }); undefined`);
    const frame = page.frameLocator("#connect-ui");
    const texts = languages[lang];
    await frame.getByRole("button", { name: texts?.form.connect ?? "", exact: true }).click();
    const background = await frame
      .locator("main")
      .evaluate("getComputedStyle(document.querySelector('main')).backgroundColor");
    const isDark = (theme === "system" ? system : theme) === "dark";
    expect(background).toBe(isDark ? "rgb(30, 33, 39)" : "rgb(255, 255, 255)");
    expect(await frame.locator("html").getAttribute("lang")).toBe(lang);
    await frame.getByText((texts?.result.connected ?? "").replace("{title}", "Sandbox: file storage")).waitFor();
  });
});
