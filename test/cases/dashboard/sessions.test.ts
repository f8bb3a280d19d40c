import { expect, it, onTestFinished } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { SignInService } from "../../../src/gen/latchkey/v1/sign_in_pb.ts";
import { asPage, postSession, rpc, signIn } from "../../support/dashboard/signed-in.ts";
import {
  adminKey,
  type HarnessOptions,
  secretKey,
  startTestSidecar,
  startUnmanaged,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";

const whoAmI = "EnvironmentService/GetCaller";
const hour = 3_600_000;

/** A sidecar with the dashboard, and a clock that a test sets. */
async function withDashboard(options: HarnessOptions = {}) {
  const clock = { ahead: 0 };
  const sidecar = await startTestSidecar({
    ...options,
    now: () => Date.now() + clock.ahead,
    env: { LATCHKEY_UI: "on", ...options.env },
  });
  return { ...sidecar, clock };
}

it("signs in with a key, by a cookie and a secret of the page, which work only together and from its own pages", async () => {
  const { control, metric } = await withDashboard();
  const response = await postSession(control, { key: `${adminKey} ` });
  const [set = ""] = response.headers.getSetCookie();
  expect(set).toMatch(/^latchkey-session=[\w-]{22}\.[\w-]{43}; SameSite=Strict; Max-Age=86400; Path=\/; HttpOnly$/);
  expect(response.headers.get("cache-control")).toBe("no-store");

  const { cookie, secret, headers } = await signIn(control, { key: adminKey });
  expect(await rpc(control, whoAmI, headers)).toMatchObject({
    status: 200,
    body: { keyId: "admin-key", browserSession: cookie.split("=")[1]?.split(".")[0] },
  });
  const other = await signIn(control, { key: adminKey });
  const page = { origin: control, "sec-fetch-site": "same-origin" };
  const both = { cookie, "latchkey-session": secret };
  const otherPort = { "sec-fetch-site": "same-site", origin: "http://127.0.0.1:1" };
  const refused: readonly [what: string, headers: Record<string, string>, error: string][] = [
    ["the cookie alone, as another port of this host gets it", { cookie, ...page }, "signed_out"],
    ["the secret alone", { "latchkey-session": secret, ...page }, "signed_out"],
    ["the secret of another session", { ...both, "latchkey-session": other.secret, ...page }, "signed_out"],
    ["two cookies, of which one is planted", { ...both, cookie: `${other.cookie}; ${cookie}`, ...page }, "signed_out"],
    ["a cookie without its token", { ...both, cookie: cookie.split(".")[0] ?? "", ...page }, "signed_out"],
    ["a page of another port", { ...both, ...otherPort }, "origin_not_allowed"],
    [
      "a page of another site",
      { ...both, "sec-fetch-site": "cross-site", origin: "https://evil.example" },
      "origin_not_allowed",
    ],
    ["a link or form, without an origin", { ...both, "sec-fetch-site": "none" }, "origin_not_allowed"],
    ["no browser at all", both, "origin_not_allowed"],
    ["an opaque origin, as of a sandboxed frame", { ...both, origin: "null" }, "origin_not_allowed"],
    ["no session", page, "missing_auth_header"],
  ];
  for (const [what, wrong, error] of refused) {
    expect({ what, error: (await rpc(control, whoAmI, wrong)).error }).toEqual({ what, error });
  }
  // A browser that names its origin but not its site: plain HTTP in a local network.
  expect((await rpc(control, whoAmI, { ...both, origin: control })).status).toBe(200);
  // A page that was reached by a name which points here is refused before anything is read.
  expect(await metric(`latchkey_refused_total{door="control",reason="origin_not_allowed"}`)).toBeGreaterThan(2);

  // Over TLS at a load balancer, the cookie is bound to the host, and one without the prefix is not accepted.
  const secureOrigin = control.replace("http:", "https:");
  const secured = await postSession(control, { key: adminKey }, { origin: secureOrigin });
  const [secure = ""] = secured.headers.getSetCookie();
  expect(secure).toMatch(/^__Host-latchkey-session=.*; Path=\/; HttpOnly; Secure$/);
  expect((await rpc(control, whoAmI, { ...both, ...page, origin: secureOrigin })).error).toBe("signed_out");
});

it("ends with its key, by revocation, by signing out and by time", async () => {
  const { control, client, clock } = await withDashboard();
  const environments = client(EnvironmentService);
  const sessions = client(SignInService);
  const state = async (headers: Readonly<Record<string, string>>) => (await rpc(control, whoAmI, headers)).error;

  const key = async (id: string) =>
    (await environments.createKey({ environment: "dev", id, scopes: [Scope.CONNECTIONS_READ] })).secret;
  const ofKey = await signIn(control, { key: await key("ada") });
  expect(await state(ofKey.headers)).toBeNull();
  await environments.revokeKey({ id: "ada" });
  expect(await state(ofKey.headers)).toBe("signed_out");
  // A later key of the same name does not revive it.
  await key("ada");
  expect(await state(ofKey.headers)).toBe("signed_out");

  const mine = await signIn(control, { key: secretKey });
  const other = await signIn(control, { key: adminKey }, { "user-agent": "Mozilla/5.0 (a\u00a0browser)" });
  const seen = await sessions.listBrowserSessions({});
  expect(seen.sessions.map(({ keyId, environments: where }) => [keyId, where])).toEqual([
    ["admin-key", []],
    ["secret-key", ["dev"]],
  ]);
  // A key of an environment sees its own only, and may not end others.
  const { body: own } = await rpc(control, "SignInService/ListBrowserSessions", mine.headers);
  expect(own.sessions).toMatchObject([{ keyId: "secret-key", current: true }]);
  const foreign = { id: seen.sessions[0]?.id ?? "" };
  expect((await rpc(control, "SignInService/RevokeBrowserSession", mine.headers, foreign)).error).toBe("not_found");
  await sessions.revokeBrowserSession(foreign);
  expect(await state(other.headers)).toBe("signed_out");

  const out = await asPage(control, "/ui/session", { method: "DELETE", headers: mine.headers });
  expect([out.status, out.headers.getSetCookie()[0]]).toEqual([
    204,
    "latchkey-session=; SameSite=Strict; Max-Age=0; Path=/; HttpOnly",
  ]);
  expect(await state(mine.headers)).toBe("signed_out");

  const idle = await signIn(control, { key: adminKey });
  clock.ahead = 8 * hour - 60_000;
  expect(await state(idle.headers)).toBeNull();
  clock.ahead += 8 * hour - 60_000;
  expect(await state(idle.headers)).toBeNull();
  clock.ahead += 8 * hour + 60_000;
  expect(await state(idle.headers)).toBe("signed_out");
  expect((await sessions.listBrowserSessions({})).sessions).toEqual([]);

  const { events } = await client(LogService).listAuditEvents({ action: "session" });
  expect(events.map(({ action, actor }) => `${action} ${actor}`).reverse()).toEqual([
    "session.create ada",
    "session.create secret-key",
    "session.create admin-key",
    "session.revoke admin-key",
    "session.end secret-key",
    "session.create admin-key",
  ]);
});

it("holds over a restart, and not beyond the removal of its key from the configuration", async () => {
  const folder = await temporaryFolder();
  const env = { LATCHKEY_UI: "on" };
  const first = await startUnmanaged({ folder, env });
  const { cookie, secret } = await signIn(first.control, { key: adminKey });
  await first.stop();
  const callerAt = async (origin: string) =>
    rpc(origin, whoAmI, { cookie, "latchkey-session": secret, origin, "sec-fetch-site": "same-origin" });

  const second = await startUnmanaged({ folder, env });
  expect((await callerAt(second.control)).status).toBe(200);
  await second.stop();
  const third = await startUnmanaged({
    folder,
    env: { ...env, LATCHKEY_ADMIN_KEY: "lk_another-key-of-this-control-plane" },
  });
  onTestFinished(() => third.stop());
  expect((await callerAt(third.control)).error).toBe("signed_out");
});

it("signs in with a link once, within a minute, and never from a session", async () => {
  const { control, client, clock } = await withDashboard();
  const { path, origin } = await client(SignInService).createSignInLink({});
  expect([origin, path.split("=")[0]]).toEqual(["", "/ui/sign-in#link"]);
  const link = path.split("=")[1] ?? "";
  const two = await Promise.all([postSession(control, { link }), postSession(control, { link })]);
  expect(two.map(({ status }) => status).sort()).toEqual([200, 401]);
  const late = (await client(SignInService).createSignInLink({})).path.split("=")[1];
  clock.ahead = 60_001;
  expect((await postSession(control, { link: late })).status).toBe(401);

  const { headers } = await signIn(control, { key: adminKey });
  const again = await rpc(control, "SignInService/CreateSignInLink", headers);
  expect(again).toMatchObject({ status: 403, error: "key_required", code: "permission_denied" });

  const off = await startTestSidecar();
  await expect(off.client(SignInService).createSignInLink({})).rejects.toThrow("set LATCHKEY_UI to on");
  // Where the dashboard is off, its secrets are no keys.
  expect((await rpc(off.control, whoAmI, headers)).error).not.toBeNull();
});

it("limits sign-ins that fail, and tells nothing by them", async () => {
  const { control } = await withDashboard();
  const wrong = () => postSession(control, { key: "lk_wrong-key-of-somebody" });
  const answers = [];
  for (let i = 0; i < 11; i += 1) answers.push(await wrong());
  expect(answers.map(({ status }) => status)).toEqual([...Array<number>(10).fill(401), 429]);
  expect(Number(answers.at(-1)?.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await postSession(control, { key: adminKey })).status).toBe(429);
  const bodies: readonly [body: string, type: string, status: number][] = [
    ["{", "application/json", 400],
    ["{}", "text/plain", 415],
    [`{"key":"${"x".repeat(20_000)}"}`, "application/json", 413],
  ];
  for (const [body, type, status] of bodies) {
    const headers = { "content-type": type };
    expect((await asPage(control, "/ui/session", { method: "POST", body, headers })).status).toBe(status);
  }
  const foreign = { origin: "https://evil.example", "sec-fetch-site": "cross-site" };
  expect((await postSession(control, { key: adminKey }, foreign)).status).toBe(403);
  expect(await (await asPage(control, "/ui/session")).json()).toEqual({
    sign_in: { key: true, identity_provider: null },
    session: null,
  });
});

it("serves nobody but signed-in browsers on a listener of its own", async () => {
  const { control, sidecar, client } = await withDashboard({ env: { LATCHKEY_UI_LISTEN: "127.0.0.1:0" } });
  const { ui = "" } = sidecar.addresses;
  const { path, origin } = await client(SignInService).createSignInLink({});
  expect(origin).toBe(ui);
  const key = { authorization: `Bearer ${adminKey}` };
  expect((await rpc(ui, whoAmI, key)).error).toBe("signed_out");
  const { headers } = await signIn(ui, { link: path.split("=")[1] });
  expect((await rpc(ui, whoAmI, headers)).status).toBe(200);
  // The control listener knows no sessions then.
  expect((await rpc(control, whoAmI, { ...headers, origin: control })).error).toBe("missing_auth_header");
  expect((await rpc(control, whoAmI, key)).status).toBe(200);
});
