import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { SignInService } from "../../../src/gen/latchkey/v1/sign_in_pb.ts";
import { rpc } from "../../support/dashboard/signed-in.ts";
import { dashboardOfFile, signIn } from "../../support/sidecar/dashboard.ts";
import { adminKey } from "../../support/sidecar/harness.ts";

const dashboard = dashboardOfFile();
const navigation = { name: "Pages" };

/** Another server on this machine, whose port a browser does not tell apart in its cookies. */
async function otherPort(html: string): Promise<{ readonly origin: string; readonly cookies: string[] }> {
  const cookies: string[] = [];
  const server = createServer((request, response) => {
    cookies.push(request.headers.cookie ?? "");
    response.setHeader("content-type", "text/html").end(html);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cookies };
}

it("signs in with a key that stays in no storage, keeps the address and ends when it is told to", {
  timeout: 60_000,
}, async () => {
  const page = await dashboard.open("/audit?action=key");
  page.context().setDefaultTimeout(15_000);
  expect(new URL(page.url()).pathname).toBe("/ui/audit");
  const stored = await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])");
  expect(stored).not.toContain(adminKey);
  expect(stored).toMatch(/"latchkey-session":"[\w-]{43}"/);
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ name: "latchkey-session", httpOnly: true, sameSite: "Strict", path: "/" });

  await page.reload();
  await page.getByRole("navigation", navigation).waitFor();
  const tab = await page.context().newPage();
  await tab.goto(page.url());
  await tab.getByRole("navigation", navigation).waitFor();

  // Nothing but a stream is under way: the page learns of the end by it.
  for (const one of [page, tab]) {
    await one.getByRole("table", { name: "Audit events" }).waitFor();
    await one.getByRole("button", { name: "Live", exact: true }).waitFor();
  }
  // Ended by an administrator: the page says so, and comes back to the same address.
  const sessions = dashboard.sidecar.client(SignInService);
  for (const { id } of (await sessions.listBrowserSessions({})).sessions) await sessions.revokeBrowserSession({ id });
  await Promise.all([page, tab].map((one) => one.getByText(/Your session has ended|was signed out/).waitFor()));
  await page.getByLabel("Key").fill("lk_not-a-key");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This key is not known").waitFor();
  await signIn(page, adminKey);
  expect(new URL(page.url()).search).toBe("?action=key");
  await tab.getByRole("navigation", navigation).waitFor();

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in to Latchkey" }).waitFor();
  await tab.getByRole("heading", { name: "Sign in to Latchkey" }).waitFor();
  expect(await page.evaluate("localStorage.getItem('latchkey-session')")).toBeNull();
  expect((await sessions.listBrowserSessions({})).sessions).toEqual([]);
});

it("signs in with a link of the command line once, and asks before it replaces a session", async () => {
  const { control, client } = dashboard.sidecar;
  const link = async () => `${control}${(await client(SignInService).createSignInLink({})).path}`;
  const page = await dashboard.open("/audit");
  const [first, second] = [await link(), await link()];
  await page.goto(first);
  await page.getByText("You are signed in already").waitFor();
  await page.getByRole("button", { name: "Stay signed in" }).click();
  await page.getByRole("navigation", navigation).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").waitFor();

  await page.goto(second);
  await page.getByRole("navigation", navigation).waitFor();
  expect(page.url()).toBe(`${control}/ui/`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").waitFor();
  await page.goto(second);
  // Shows what the page says instead, if this fails.
  await expect.poll(() => page.getByRole("main").innerText()).toMatch(/link was used/);
});

it("withstands another port of this host, frames and foreign pages", async () => {
  const { control } = dashboard.sidecar;
  const page = await dashboard.open("/audit");
  const call = `fetch("${control}/latchkey.v1.EnvironmentService/GetCaller", {
    method: "POST", credentials: "include", body: "{}", headers: { "content-type": "application/json" } })`;
  const thief = await otherPort(`<iframe src="${control}/ui/" width=800 height=600></iframe>`);
  const tab = await page.context().newPage();
  await tab.goto(thief.origin);
  // Browsers send a strict cookie to every port of a host. With it alone nothing opens.
  const stolen = thief.cookies[0] ?? "";
  expect(stolen).toContain("latchkey-session=");
  const own = { origin: control, "sec-fetch-site": "same-origin" };
  expect((await rpc(control, "EnvironmentService/GetCaller", { cookie: stolen, ...own })).error).toBe("signed_out");
  // Neither does its page get an answer, nor does the frame show anything that could be clicked.
  expect(await tab.evaluate(`${call}.then(() => "answered", () => "refused")`)).toBe("refused");
  const [, frame] = tab.frames();
  expect(await frame?.locator("body").innerText()).not.toContain("Latchkey");
  expect(await tab.evaluate("document.querySelector('iframe').contentDocument")).toBeNull();
});
