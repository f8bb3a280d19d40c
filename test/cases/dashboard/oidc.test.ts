import { createServer } from "node:http";
import Provider from "oidc-provider";
import type { Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { refreshDashboard } from "../../../bin/dashboard.ts";
import { describeListener, listen } from "../../../src/base/http/listener.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { SignInService } from "../../../src/gen/latchkey/v1/sign_in_pb.ts";
import { asPage, rpc, signIn } from "../../support/dashboard/signed-in.ts";
import { browserOfFile } from "../../support/peers/chromium.ts";
import { createTestBrowser } from "../../support/sidecar/connecting.ts";
import { adminKey, startTestSidecar } from "../../support/sidecar/harness.ts";

const newPage = browserOfFile();

/** What the provider says about each person. */
const people: Readonly<Record<string, object>> = {
  ada: { email: "ada@example.com", email_verified: true, groups: ["platform", "everything-else"] },
  bob: { email: "ada@example.com", email_verified: false, groups: ["support", "dev-team"] },
  eve: { email: "eve@example.com", email_verified: true, groups: ["guests"] },
};

const oidc = {
  client_id: "latchkey",
  client_secret: { env: "OIDC_SECRET" },
  scopes: ["openid", "email", "groups"],
  groups: [
    { group: "platform", scopes: ["admin"] },
    { group: "support", environments: ["prod"], scopes: ["connections:read"] },
    { group: "dev-team", environments: ["dev"], scopes: ["connections:read", "connections:write"] },
  ],
};

/** Latchkey with an identity provider of the company, which asks for a password and for consent. */
async function company({ tamper = (idToken: string) => idToken } = {}) {
  const server = createServer();
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  const issuer = describeListener(server, false);
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  );
  const sidecar = await startTestSidecar({
    env: {
      LATCHKEY_UI: "on",
      LATCHKEY_UI_OIDC_ISSUER: issuer,
      LATCHKEY_CONFIG: "/latchkey.yaml",
      LATCHKEY_ALLOW_PRIVATE: issuer,
      OIDC_SECRET: "a-secret-of-the-client",
    },
    files: {
      "/latchkey.yaml": JSON.stringify({ environments: [{ name: "dev" }, { name: "prod" }], dashboard: { oidc } }),
    },
  });
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: oidc.client_id,
        client_secret: "a-secret-of-the-client",
        redirect_uris: [`${sidecar.control}/ui/oidc/callback`],
      },
    ],
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
    scopes: oidc.scopes,
    features: { devInteractions: { enabled: true } },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...people[sub] }) }),
  });
  provider.use(async (ctx, next) => {
    await next();
    const { body } = ctx;
    if (typeof body === "object" && body !== null && "id_token" in body) {
      ctx.body = { ...body, id_token: tamper(String(body.id_token)) };
    }
  });
  server.on("request", provider.callback());
  return { ...sidecar, issuer };
}

/** Signs in at the provider's pages, and agrees. */
async function agree(page: Page, person: string): Promise<void> {
  await page.locator("input[name=login]").fill(person);
  await page.locator("input[name=password]").fill("x");
  await page.getByRole("button").first().click();
  await page.getByRole("button", { name: "Continue" }).click();
}

it("signs a person in and out through the company's provider, with the name in the audit trail", async () => {
  await refreshDashboard();
  const { control, client, issuer } = await company();
  const page = await newPage();
  await page.goto(`${control}/ui/audit?env=prod`);
  await page.getByRole("button", { name: `Continue with ${new URL(issuer).host}` }).click();
  await agree(page, "ada");
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  expect(page.url()).toBe(`${control}/ui/audit?env=prod`);
  await page.getByText("ada@example.com").first().waitFor();
  expect((await client(SignInService).listBrowserSessions({})).sessions).toMatchObject([
    { keyId: "", person: "ada@example.com", environments: [] },
  ]);
  const { events } = await client(LogService).listAuditEvents({ action: "session.create" });
  expect(events.map(({ actor }) => actor)).toEqual(["ada@example.com"]);

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Latchkey" }).waitFor();
  expect((await client(SignInService).listBrowserSessions({})).sessions).toEqual([]);
  expect((await page.context().cookies(control)).filter(({ name }) => name.startsWith("latchkey"))).toEqual([]);
});

/** A browser without pages: begins the sign-in, and returns the address that the provider sends it back to. */
async function sentBack(control: string, person: string) {
  const browser = createTestBrowser();
  const { host } = new URL(control);
  const hostname = host.split(":")[0] ?? "";
  const begun = await asPage(control, "/ui/oidc/start", {
    method: "POST",
    body: JSON.stringify({ return_to: "//evil.example/" }),
  });
  const [, secret = ""] = /^latchkey-sign-in=([^;]+); SameSite=Lax/.exec(begun.headers.getSetCookie()[0] ?? "") ?? [];
  browser.cookies.set(`${hostname} latchkey-sign-in`, secret);
  let page = await browser.toward(((await begun.json()) as { url: string }).url, `${control}/`);
  for (let i = 0; i < 3 && typeof page !== "string"; i += 1) {
    const [, action = ""] = /action="([^"]+)"/.exec(page.text) ?? [];
    const [, prompt = ""] = /name="prompt" value="([^"]+)"/.exec(page.text) ?? [];
    const form = new URLSearchParams({ prompt, login: person, password: "x" });
    const response = await browser.post(action, form);
    page = await browser.toward(new URL(response.headers.get("location") ?? "", action).href, `${control}/`);
  }
  return { callback: String(page), cookie: `latchkey-sign-in=${secret}` };
}

const fragmentOf = async (callback: string, cookie: string) => {
  const response = await fetch(callback, { redirect: "manual", headers: cookie === "" ? {} : { cookie } });
  expect(response.status).toBe(303);
  return new URLSearchParams(response.headers.get("location")?.split("#")[1]);
};

it("gives each person what their groups may do, in each environment, and nothing to others", async () => {
  const { control } = await company();
  const bob = await sentBack(control, "bob");
  // Another browser that learns the address gets nothing, and does not use it up.
  expect((await fragmentOf(bob.callback, "")).get("problem")).toBe("not_begun");
  const arrived = await fragmentOf(bob.callback, bob.cookie);
  expect(arrived.get("to")).toBe("/ui/");
  expect((await fragmentOf(bob.callback, bob.cookie)).get("problem")).toBe("not_begun");
  const link = arrived.get("link") ?? "";
  await expect(signIn(control, { link })).rejects.toThrow("401");

  const again = await sentBack(control, "bob");
  const proof = { link: (await fragmentOf(again.callback, again.cookie)).get("link") };
  const { headers } = await signIn(control, proof, { cookie: again.cookie });
  const { body: who } = await rpc(control, "EnvironmentService/GetCaller", headers);
  // The address is not verified: it could be that of another person.
  expect(who.person).toMatch(/^bob@127\.0\.0\.1:\d+$/);
  const list = (environment: string) =>
    rpc(
      control,
      "ConnectionService/ListConnections",
      { ...headers, "latchkey-environment": environment },
      { environment },
    );
  const change = (environment: string) =>
    rpc(
      control,
      "ConnectSessionService/CreateConnectSession",
      { ...headers, "latchkey-environment": environment },
      { environment, endUser: { id: "x" } },
    );
  expect([(await list("dev")).error, (await list("prod")).error]).toEqual([null, null]);
  expect([(await change("dev")).error, (await change("prod")).error]).toEqual([null, "missing_scope"]);
  // A header of one environment opens no other.
  const crossed = { ...headers, "latchkey-environment": "prod" };
  const across = await rpc(control, "ConnectionService/ListConnections", crossed, { environment: "dev" });
  expect(across.error).toBe("missing_scope");
  expect((await rpc(control, "EnvironmentService/ListKeys", headers)).error).toBe("missing_scope");
  const { body: seen } = await rpc(control, "EnvironmentService/ListEnvironments", headers);
  expect(seen.environments.map(({ name }: { readonly name: string }) => name).sort()).toEqual(["dev", "prod"]);

  // In the page, the environment decides what can be done.
  const third = await sentBack(control, "bob");
  const page = await newPage();
  const [name = "", value = ""] = third.cookie.split("=");
  await page.context().addCookies([{ name, value, url: control, httpOnly: true, sameSite: "Lax" }]);
  await page.goto(third.callback);
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  await page.getByRole("combobox", { name: "Environment" }).selectOption("dev");
  await page.getByText("bob@").waitFor();
  const asked = page.waitForRequest((request) => request.headers()["latchkey-environment"] === "prod");
  await page.getByRole("combobox", { name: "Environment" }).selectOption("prod");
  await asked;
  await expect.poll(() => page.getByRole("combobox", { name: "Environment" }).inputValue()).toBe("prod");

  const eve = await sentBack(control, "eve");
  expect((await fragmentOf(eve.callback, eve.cookie)).get("problem")).toBe("no_access");
});

it("refuses tokens that were changed, and providers that are not allowed or not there", async () => {
  const forged = await company({
    tamper(idToken) {
      const [head, body = "", signature] = idToken.split(".");
      const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as object;
      const changed = Buffer.from(JSON.stringify({ ...claims, groups: ["platform"] })).toString("base64url");
      return [head, changed, signature].join(".");
    },
  });
  const bob = await sentBack(forged.control, "bob");
  expect((await fragmentOf(bob.callback, bob.cookie)).get("problem")).toBe("failed");
  expect(forged.logged.join("\n")).not.toContain("a-secret-of-the-client");

  // A private address that is not allowed, and a page of another site that begins a sign-in.
  const asked: string[] = [];
  const inside = createServer((request, response) => void response.end(void asked.push(String(request.url))));
  await listen(inside, { kind: "tcp", host: "127.0.0.1", port: 0 });
  onTestFinished(() => void inside.close());
  const files = {
    "/latchkey.yaml": JSON.stringify({ dashboard: { oidc: { ...oidc, issuer: describeListener(inside, false) } } }),
  };
  const env = { LATCHKEY_UI: "on", LATCHKEY_CONFIG: "/latchkey.yaml", OIDC_SECRET: "a-secret-of-the-client" };
  const { control } = await startTestSidecar({ env, files });
  const begin = (headers: Record<string, string> = {}) =>
    asPage(control, "/ui/oidc/start", { method: "POST", body: "{}", headers });
  expect((await begin()).status).toBe(502);
  expect(asked).toEqual([]);
  expect((await begin({ origin: "https://evil.example", "sec-fetch-site": "cross-site" })).status).toBe(403);
  expect((await signIn(control, { key: adminKey })).secret).not.toBe("");
});
