import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import {
  appOrigin,
  type Connecting,
  connecting,
  departure,
  type TestBrowser,
} from "../../support/sidecar/connecting.ts";

/** The fields of a navigation to a tab, as browsers send them. */
const navigation = (site: string) => ({
  accept: "text/html,application/xhtml+xml",
  "user-agent": "Mozilla/5.0 (X11; Linux x64)",
  "sec-fetch-site": site,
  "sec-fetch-mode": "navigate",
  "sec-fetch-dest": "document",
});
/** The same of a browser that leaves Fetch Metadata out. */
const olderNavigation = { accept: "text/html,*/*;q=0.8", "user-agent": "Mozilla/5.0 (iPhone) Safari/604.1" };

/** Sends one browser request with exactly these fields; `fetch` would add its own. */
async function visit({ cookies }: TestBrowser, url: string, fields: Readonly<Record<string, string>>) {
  const { hostname } = new URL(url);
  const cookie = [...cookies].map(([key, value]) => `${key.split(" ")[1]}=${value}`).join("; ");
  const asked = request(url, { headers: { ...fields, ...(cookie !== "" && { cookie }) } }).end();
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  for (const line of response.headers["set-cookie"] ?? []) {
    const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
    cookies.set(`${hostname} ${name}`, value);
  }
  const { statusCode: status = 0, headers } = response;
  return { status, location: headers.location, headers, text: await text(response) };
}

const unescaped = (escaped: string) =>
  escaped.replaceAll("&amp;", "&").replaceAll("&quot;", '"').replaceAll("&#39;", "'");
/** The hidden fields of a page's form. */
const fieldsOf = (page: string) =>
  new URLSearchParams(
    [...page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(
      ([, name = "", value = ""]): [string, string] => [unescaped(name), unescaped(value)],
    ),
  );
const linkTo = ({ sidecar }: Connecting, token: string) => `${sidecar.data}/connect/?session_token=${token}`;
const formTo = ({ sidecar }: Connecting) => `${sidecar.data}/oauth/connect/sandbox-files/confirm`;

it.each(["cross-site", "same-site", "none"])(
  "shows its own page to a browser that a link leads to a provider (%s), and continues from that page",
  async (site) => {
    const all = await connecting();
    const browser = all.browser();
    const token = await all.session({ end_user: { id: "eve", display_name: "Ada", email: "eve@evil.test" } });
    const url = departure(all, token, { "params[x]": `"><b>`, return_to: `${appOrigin}/done` });
    const page = await visit(browser, url, navigation(site));
    expect([page.status, page.location]).toEqual([200, undefined]);
    // The page names the origin and the user: the app's display name alone proves nothing.
    expect(page.text).toContain("<strong>app.example.com</strong> asks to connect your Sandbox: file storage account");
    expect(page.text).toContain("<strong>Ada (eve@evil.test)</strong>");
    expect(page.text).not.toContain(`"><b>`);
    expect(page.headers["content-security-policy"]).toContain("frame-ancestors 'none'");
    const away = await browser.post(formTo(all), fieldsOf(page.text));
    expect([away.status, away.headers.get("location")?.startsWith(all.sandbox.origin)]).toEqual([303, true]);
    const end = await browser.until(away.headers.get("location") ?? "", appOrigin);
    expect(end).toContain(`${appOrigin}/done?provider_config_key=sandbox-files&connection_id=`);
  },
);

it("goes straight to the provider from its own page", async () => {
  const all = await connecting();
  const page = await visit(all.browser(), departure(all, await all.session()), navigation("same-origin"));
  expect([page.status, page.location?.startsWith(all.sandbox.origin)]).toEqual([303, true]);
});

it("shows its page once to browsers that send no fetch metadata", async () => {
  const all = await connecting();
  const browser = all.browser();
  const token = await all.session({ allowed_integrations: ["sandbox-files"] });
  expect((await visit(browser, departure(all, token), olderNavigation)).status).toBe(200);
  expect((await visit(all.browser(), departure(all, token), { referer: "https://evil.test/" })).status).toBe(200);
  // The page behind a connect link does not ask such a browser again.
  const other = all.browser();
  const shown = await visit(other, linkTo(all, token), olderNavigation);
  const away = await visit(
    other,
    `${all.sidecar.data}/oauth/connect/sandbox-files?${fieldsOf(shown.text)}`,
    olderNavigation,
  );
  expect([away.status, away.location?.startsWith(all.sandbox.origin)]).toEqual([303, true]);
});

it("takes no agreement that its page was not shown for", async () => {
  const all = await connecting();
  const [token, other] = [await all.session(), await all.session()];
  const attacker = all.browser();
  const shown = fieldsOf((await visit(attacker, departure(all, token), navigation("cross-site"))).text);
  const victim = all.browser();
  // The proof of another browser, of another session, and none.
  expect((await victim.post(formTo(all), shown)).status).toBe(403);
  const elsewhere = new URLSearchParams([...shown]);
  elsewhere.set("connect_session_token", other);
  expect((await attacker.post(formTo(all), elsewhere)).status).toBe(403);
  const bare = new URLSearchParams({ connect_session_token: other });
  expect((await attacker.post(formTo(all), bare)).status).toBe(403);
  const query = { confirmation: shown.get("confirmation") ?? "" };
  expect((await visit(victim, departure(all, other, query), navigation("cross-site"))).status).toBe(200);
  const foreign = await fetch(formTo(all), { method: "POST", body: shown, headers: { origin: "https://evil.test" } });
  expect(foreign.status).toBe(403);
  expect(await all.connections()).toEqual([]);
});

it.each([
  ["the page behind the link", linkTo, "none"],
  ["the provider", (all: Connecting, token: string) => departure(all, token), "same-origin"],
])("binds a session to the browser that used it first for %s", async (_, urlOf, site) => {
  const all = await connecting();
  const token = await all.session();
  const first = all.browser();
  expect((await visit(first, urlOf(all, token), navigation(site))).status).toBeLessThan(400);
  const second = all.browser();
  for (const url of [linkTo(all, token), departure(all, token)]) {
    for (const from of ["none", "cross-site", "same-origin"]) {
      const refused = await visit(second, url, navigation(from));
      expect([refused.status, refused.location]).toEqual([403, undefined]);
      expect(refused.text).toContain("This link belongs to the browser in which it was used first");
      expect(refused.headers["latchkey-error"]).toBe("other_browser");
    }
  }
  const form = new URLSearchParams({ session_token: token, integration: "sandbox-api-key", apiKey: "sandbox-api-key" });
  expect((await second.post(`${all.sidecar.data}/connect/`, form)).status).toBe(403);
  // Nor is it a program's any more.
  expect((await fetch(departure(all, token), { redirect: "manual" })).status).toBe(403);
  expect((await visit(first, departure(all, token), navigation("same-origin"))).status).toBe(303);
});

it("does not bind a session to a browser whose first attempt was refused, and whose cookie may be lost", async () => {
  const all = await connecting();
  const token = await all.session();
  const wrong = departure(all, token, { return_to: "https://evil.test/" });
  expect((await visit(all.browser(), wrong, navigation("same-origin"))).status).toBe(400);
  const [first, second] = [all.browser(), all.browser()];
  expect((await visit(first, departure(all, token), navigation("same-origin"))).status).toBe(303);
  expect((await visit(second, departure(all, token), navigation("same-origin"))).status).toBe(403);
});

it("does not bind a session to link previews", async () => {
  const all = await connecting();
  const token = await all.session();
  for (const headers of [
    { ...navigation("none"), "sec-purpose": "prefetch;prerender" },
    { "user-agent": "Slackbot-LinkExpanding 1.0", accept: "*/*" },
    { ...navigation("cross-site"), "sec-fetch-dest": "iframe" },
  ]) {
    await visit(all.browser(), linkTo(all, token), headers);
    await visit(all.browser(), departure(all, token), headers);
  }
  const person = await visit(all.browser(), linkTo(all, token), navigation("none"));
  expect(person.status).toBe(200);
});

it("names the user of the connection that is authorized again", async () => {
  const all = await connecting();
  await all.browser().go(departure(all, await all.session({ end_user: { id: "u1", email: "ada@app.example" } })));
  const [item] = await all.connections();
  const token = await all.reconnectSession(item?.connection_id ?? "");
  const page = await visit(all.browser(), departure(all, token), navigation("cross-site"));
  expect([page.status, page.text]).toEqual([200, expect.stringContaining("<strong>ada@app.example</strong>")]);
});

it("names the environment where it knows no page of the application, and tags where it knows no user", async () => {
  const all = await connecting();
  await all.sidecar.client(EnvironmentService).createEnvironment({ name: "plain" });
  const { secret } = await all.sidecar.client(EnvironmentService).createKey({ environment: "plain" });
  for (const unique_key of ["one", "two"]) {
    await all.sidecar.rest("POST", "/integrations", { key: secret, body: { unique_key, provider: "example-api-key" } });
  }
  const made = await all.sidecar.rest("POST", "/connect/sessions", { key: secret, body: { tags: { team: "sales" } } });
  const page = await visit(all.browser(), made.body.data.connect_link, navigation("none"));
  expect(page.text).toContain("<strong>plain</strong> asks to connect an account for <strong>team sales</strong>");
});
