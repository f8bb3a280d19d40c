import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Frame, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { contrast } from "../../../src/data-plane/pages/accent.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { browserOfFile, startApplication } from "../../support/peers/chromium.ts";
import { type Connecting, connecting, departure } from "../../support/sidecar/connecting.ts";
import { lacks } from "../../support/sidecar/needs.ts";

const shots = process.env["LATCHKEY_TEST_SHOTS"];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const logo = `data:image/svg+xml;base64,${Buffer.from(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="14" fill="#e4572e"/><path d="M16 8l7 14H9z" fill="#fff"/></svg>',
).toString("base64")}`;
const branding = {
  name: "Acme",
  logo,
  accentColor: "#e4572e",
  supportUrl: "https://acme.example/help",
};

const providers = (origin: string) => {
  const proxy = { base_url: origin.replace("http:", "https:") };
  const site = {
    ...{ name: "site", title: "Site", description: "The part before .crm.example.", example: "acme", required: true },
    pattern: "[a-z0-9\\-]+",
  };
  const endpoints = { authorization_url: `${origin}/oauth2/auth`, token_url: `${proxy.base_url}/oauth2/token` };
  const docs_url = "https://crm.example/docs";
  return [
    { name: "crm", display_name: "CRM", categories: ["crm"], oauth2: endpoints, proxy, connection_fields: [site] },
    {
      ...{ name: "keyed", display_name: "Keyed", categories: ["payments"], docs_url, proxy },
      ...{ api_key: { header: "x-api-key" }, connection_fields: [site] },
      verification: { request: { method: "GET", path: "/api/me" } },
    },
    { name: "open", display_name: "Open data", none: {}, proxy },
  ];
};
const oauth = { client_id: "sandbox", client_secret: { env: "APP_SECRET" } };
const integrations = [
  ...["crm", "zendesk", "slack", "github", "stripe", "notion", "google-mail", "google-sheet"].map((provider) => ({
    ...{ environment: "dev", key: provider, provider },
    ...(provider === "stripe" ? {} : { oauth }),
  })),
  { environment: "dev", key: "keyed", provider: "keyed" },
  { environment: "dev", key: "open", provider: "open" },
  { environment: "dev", key: "unset", provider: "linear" },
];

type Shown = Page | Frame;

interface State {
  readonly name: string;
  /** Brings a new page into the state. */
  readonly open: (page: Page) => Promise<Shown>;
}

const user = { id: "bob", display_name: "Bob Example", email: "bob@acme.example" };

function statesOf(all: Connecting, application: string): readonly State[] {
  const link = async (key?: string, more: object = {}, query = "") => {
    const body = { end_user: user, ...(key === undefined ? {} : { allowed_integrations: [key] }), ...more };
    return `${all.sidecar.data}/connect/?session_token=${await all.session(body)}${query}`;
  };
  const at = (name: string, url: () => Promise<string>): State => ({
    name,
    open: async (page) => {
      await page.goto(await url());
      return page;
    },
  });
  const after = (before: State, name: string, act: (page: Page) => Promise<unknown>): State => ({
    name,
    open: async (page) => {
      await before.open(page);
      await act(page);
      return page;
    },
  });
  const connect = (page: Page) => page.getByRole("button", { name: "Connect", exact: true }).click();
  const form = (key: string) => at(`form-${key}`, () => link(key));
  const framed = (
    name: string,
    key: string | undefined,
    act: (frame: Frame) => Promise<unknown> = async () => {},
  ): State => ({
    name,
    async open(page) {
      await page.goto(name === "framed-not-allowed" ? application.replace("localhost", "127.0.0.1") : application);
      const body = { end_user: user, ...(key === undefined ? {} : { allowed_integrations: [key] }) };
      const token = key === "gone" ? `lk_connect_${"x".repeat(32)}` : await all.session(body);
      await page.evaluate(`document.body.style.font = "1.5rem/1.6 serif"; document.body.append("An application of its own. ".repeat(40));
        new Frontend.default({ host: ${JSON.stringify(all.sidecar.data)}, connectSessionToken: "${token}" })
        .openConnectUI({ baseURL: ${JSON.stringify(`${all.sidecar.data}/connect`)} }); undefined`);
      await page.frameLocator("#connect-ui").locator("h1").waitFor();
      const frame = page.frames().find((one) => one !== page.mainFrame());
      if (frame === undefined) throw new Error("there is no frame");
      await frame.waitForSelector("a, button:not(.x), [role=alert]");
      await act(frame);
      return frame;
    },
  });
  const oauthForm = form("sandbox-files");
  const answered = (name: string, decide: string) =>
    after(oauthForm, name, async (page) => {
      await connect(page);
      await page.getByRole("button", { name: decide }).click();
      await page.waitForURL(/\/oauth\/callback/);
    });
  return [
    at("choose", () => link()),
    at("choose-few", () => link(undefined, { allowed_integrations: ["keyed", "crm", "sandbox-calendar"] })),
    after(
      at("", () => link()),
      "choose-search",
      async (page) => {
        await page.getByRole("searchbox").fill("zzz");
        await page.getByText("Nothing matches.").waitFor();
      },
    ),
    oauthForm,
    form("keyed"),
    form("sandbox-basic"),
    form("sandbox-client-credentials"),
    form("crm"),
    form("open"),
    form("unset"),
    at("german", () => link("keyed", {}, "&lang=de")),
    at("japanese", () => link("keyed", {}, "&lang=ja")),
    after(form("keyed"), "problems", connect),
    after(form("keyed"), "wrong-key", async (page) => {
      await page.getByLabel("Site").fill("acme");
      await page.getByLabel("API key", { exact: true }).fill("a-wrong-key");
      await connect(page);
      await page.getByText("does not accept these credentials").waitFor();
    }),
    answered("connected", "Allow"),
    after(oauthForm, "partly-connected", async (page) => {
      await connect(page);
      await page.getByRole("checkbox", { name: "drive" }).uncheck();
      await page.getByRole("button", { name: "Allow" }).click();
      await page.getByText("requested and not granted").waitFor();
    }),
    answered("denied", "Deny"),
    after(oauthForm, "consent", connect),
    at("confirm", async () => departure(all, await all.session({ end_user: user }))),
    after(oauthForm, "other-browser", async (page) =>
      page
        .context()
        .clearCookies()
        .then(() => page.reload()),
    ),
    at("expired", async () => `${all.sidecar.data}/connect/?session_token=lk_connect_${"x".repeat(32)}`),
    at("used-callback", async () => `${all.sidecar.data}/oauth/callback?state=nothing&code=x`),
    at("incomplete", async () => `${all.sidecar.data}/connect/`),
    at("bad-return", () => link("keyed", {}, "&return_to=https://evil.test/")),
    framed("framed-choose", undefined),
    framed("framed-form", "crm"),
    framed("framed-key", "keyed"),
    framed("framed-gone", "gone"),
    framed("framed-not-allowed", "crm"),
    framed("framed-connected", "sandbox-files", async (frame) => {
      const popup = frame.page().waitForEvent("popup");
      await frame.getByRole("button", { name: "Connect", exact: true }).click();
      await (await popup).getByRole("button", { name: "Allow" }).click();
      await frame.getByText("is connected").waitFor();
    }),
    at("sandbox", async () => `${all.sandbox.origin}/_sandbox`),
    after(
      at("", async () => `${all.sandbox.origin}/_sandbox`),
      "sandbox-trouble",
      async (page) => {
        await page.getByRole("button", { name: "Rate limit" }).click();
        await page.getByText("get 429").waitFor();
      },
    ),
    at("sandbox-device", async () => `${all.sandbox.origin}/oauth2/device`),
  ];
}

/** States that differ from others only in their texts: checked and photographed where pictures are wanted. */
const similar: ReadonlySet<string> = new Set([
  ...["choose-few", "choose-search", "form-sandbox-basic", "form-sandbox-client-credentials", "form-open", "german"],
  ...["japanese", "used-callback", "incomplete", "framed-choose", "framed-gone", "sandbox-device"],
]);

const looks = [
  { scheme: "light", size: { width: 1280, height: 800 }, name: "wide-light" },
  { scheme: "dark", size: { width: 1280, height: 800 }, name: "wide-dark" },
  { scheme: "light", size: { width: 390, height: 844 }, name: "phone-light" },
  { scheme: "dark", size: { width: 390, height: 844 }, name: "phone-dark" },
] as const;

interface Found {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** The problems that axe finds. All rules are checked once, and in the dark what colors can change. */
async function judged(shown: Shown, look: string): Promise<readonly string[]> {
  const isFirst = look === "wide-light";
  if (!isFirst && look !== "phone-dark") return [];
  const only = isFirst ? ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] : ["color-contrast"];
  const type = isFirst ? "tag" : "rule";
  const found = (await shown.evaluate(
    `axe.run(document, { runOnly: { type: "${type}", values: ${JSON.stringify(only)} }, resultTypes: ["violations"] }).then(({ violations }) => violations)`,
  )) as readonly Found[];
  return found.map(
    ({ id, nodes }) =>
      `${id}: ${nodes
        .map((node) => `${node.html} ${node.failureSummary}`)
        .join("; ")
        .slice(0, 400)}`,
  );
}

/** The borders of controls with too little contrast to the surface around them, and what is wider than the window. */
async function measured(shown: Shown): Promise<readonly string[]> {
  const { borders, overflow } = (await shown.evaluate(`(() => {
    const surface = getComputedStyle((document.querySelector(".card") ?? document.querySelector(".wide section") ?? document.querySelector("main"))).backgroundColor;
    const controls = [...document.querySelectorAll("input:not([type=hidden],[type=radio],[type=checkbox]), .choices a, button:not(.x), .button")];
    const shown = controls.filter((one) => one.checkVisibility() && getComputedStyle(one).borderTopWidth !== "0px");
    const borders = shown.map((one) => [one.outerHTML.slice(0, 80), getComputedStyle(one).borderTopColor, surface]);
    const root = document.scrollingElement;
    return { borders, overflow: root.scrollWidth - root.clientWidth };
  })()`)) as { borders: readonly [string, string, string][]; overflow: number };
  const faint = borders.filter(([, border, surface]) => contrast(hexOf(border), hexOf(surface)) < 3);
  return [
    ...faint.map(([tag, border, surface]) => `border ${border} on ${surface}: ${tag}`),
    ...(overflow > 0 ? [`${overflow} px wider than the window`] : []),
  ];
}

const hexOf = (color: string): string =>
  `#${(color.match(/[\d.]+/g) ?? [])
    .slice(0, 3)
    .map((part) => Math.round(Number(part)).toString(16).padStart(2, "0"))
    .join("")}`;

describe.skipIf(lacks("chromium"))("every state of the pages, in light and dark, wide and narrow", () => {
  const newPage = browserOfFile();

  it("has no serious problem, and breaks no rule of its policy", async () => {
    const application = await startApplication();
    const all = await connecting({
      ...{ providers, integrations, origin: application },
      sandbox: { behaviour: { consent: "ask" } },
    });
    await all.sidecar
      .client(EnvironmentService)
      .updateEnvironment({ environment: { name: "dev", branding }, updateMask: { paths: ["branding"] } });
    const problems: string[] = [];
    const wanted = process.env["LATCHKEY_TEST_STATES"]?.split(",");
    const shownLooks =
      shots === undefined ? looks.filter(({ name }) => name !== "wide-dark" && name !== "phone-light") : looks;
    const page = await newPage();
    let at = "";
    page.on("console", (message) => {
      const isOfNetwork = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isOfNetwork) problems.push(`${at}: console: ${message.text()}`);
    });
    for (const state of statesOf(all, application)) {
      if (wanted === undefined ? shots === undefined && similar.has(state.name) : !wanted.includes(state.name))
        continue;
      at = state.name;
      await page.context().clearCookies();
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await page.setViewportSize(looks[0].size);
      const shown = await state.open(page);
      await shown.evaluate(axe);
      for (const { scheme, size, name } of shownLooks) {
        await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
        await page.setViewportSize(size);
        const found = [...(await judged(shown, name)), ...(await measured(shown))];
        problems.push(...found.map((text) => `${state.name}, ${name}: ${text}`));
        if (shots === undefined) continue;
        mkdirSync(shots, { recursive: true });
        await page.screenshot({ path: `${shots}/${state.name}-${name}.png` });
      }
    }
    expect(problems).toEqual([]);
  }, 180_000);
});
