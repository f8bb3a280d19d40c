import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { version } from "../../../src/base/version.ts";
import { runCli } from "../../../src/cli/program.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { signIn } from "../../support/dashboard/signed-in.ts";
import { startProvider, startProxied } from "../../support/peers/provider.ts";
import {
  adminKey,
  secretKey,
  startTestSidecar,
  type TestSidecar,
  temporaryFolder,
} from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "./memory-terminal.ts";

type Setting = Parameters<typeof memoryTerminal>[0];

/** Runs commands as a person does who has set the addresses and the keys. */
const commandsAgainst =
  ({ data, control }: Pick<TestSidecar, "data" | "control">, env: Readonly<Record<string, string>> = {}) =>
  async (argv: readonly string[], setting: Setting = {}) => {
    const where = { LATCHKEY_DATA: data, LATCHKEY_CONTROL: control, NO_COLOR: "1" };
    const keys = { LATCHKEY_SECRET_KEY: secretKey, LATCHKEY_ADMIN_KEY: adminKey, LATCHKEY_ENVIRONMENT: "dev" };
    const terminal = memoryTerminal({ ...setting, env: { ...where, ...keys, ...env } });
    const code = await runCli(argv, terminal);
    return { code, out: terminal.out(), err: terminal.err() };
  };

async function proxied() {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  return { provider, running, run: commandsAgainst(running) };
}

it("calls a provider through the proxy: its response on stdout, its status as exit code", async () => {
  const { provider, run } = await proxied();
  const got = await run(["call", "here/ada", "/a b?c=%20", "-H", "X-Own: 1"]);
  expect([got.code, got.err]).toEqual([0, ""]);
  expect(JSON.parse(got.out).line).toBe("GET /a%20b?c=%20 HTTP/1.1");
  const sent = await run(["call", "here/ada", "put", "/x", "-d", "-", "-i"], { stdin: '{"a":1}' });
  expect(sent.out).toMatch(/^HTTP\/1\.1 200 OK\n/);
  const requests = provider.connections.flatMap((one) => one.requests());
  expect(requests.at(-1)).toMatchObject({ line: "PUT /x HTTP/1.1", body: '{"a":1}' });
  expect(requests.at(-1)?.fields).toContainEqual(["content-type", "application/json"]);
  expect(requests.at(0)?.fields).toContainEqual(["x-own", "1"]);
});

it("tells Latchkey's own refusals from the provider's, in words or as JSON", async () => {
  const { run } = await proxied();
  expect(await run(["call", "here/eve", "/x"])).toMatchObject({
    code: 1,
    out: "",
    err: expect.stringContaining("(unknown_connection)"),
  });
  const json = await run(["call", "here/eve", "/x", "--json"]);
  expect(JSON.parse(json.err).error.code).toBe("unknown_connection");
  const away = await commandsAgainst({ data: "http://127.0.0.1:1", control: "" })(["call", "here/ada", "/x"]);
  expect([away.code, away.err]).toEqual([1, expect.stringMatching(/cannot be reached[\s\S]*LATCHKEY_DATA/)]);
  expect((await run(["call", "here", "/x"])).err).toContain("Write it as integration/connection");
});

it.each([
  [404, 4],
  [503, 5],
])("ends with a code of its own for a provider's %i", async (status, code) => {
  const provider = await startProvider((_request, socket) => {
    socket.write(`HTTP/1.1 ${status} Said\r\nContent-Length: 4\r\n\r\nsaid`);
  });
  const run = commandsAgainst(await startProxied(provider.port));
  expect(await run(["call", "here/ada", "/x"])).toEqual({ code, out: "said", err: "" });
});

it("explains, reconnects and refreshes a connection", async () => {
  const { run } = await proxied();
  expect((await run(["connections", "explain", "here/ada", "GET", "/files", "-H", "Cookie: x"])).out).toMatch(
    /^GET https:\/\/127\.0\.0\.1:\d+\/files\nprovider +here\n[\s\S]*adds +x-api-key\n[\s\S]*drops +Cookie\n$/,
  );
  expect((await run(["connections", "reconnect", "here/ada"])).out).toMatch(
    /^http:\S+\/connect\/?\?session_token=\S+\n$/,
  );
  expect((await run(["connections", "refresh", "here/ada"])).out).toBe("refreshed here/ada; state: active\n");
});

it("says who one is, also for a key of an environment", async () => {
  const sidecar = await startTestSidecar();
  const run = commandsAgainst(sidecar);
  expect((await run(["whoami"])).out).toMatch(/^key +\S+\nenvironment +all\nscopes +admin\nserver /);
  expect((await run(["version"])).out).toBe(`client  ${version}\nserver  ${version}\n`);
  const { secret } = await sidecar
    .client(EnvironmentService)
    .createKey({ environment: "dev", id: "reader", scopes: [Scope.PROXY] });
  const json = await run(["whoami", "--json", "--key", secret]);
  expect(JSON.parse(json.out)).toMatchObject({ key_id: "reader", environment: "dev", scopes: ["proxy"], version });
  expect((await run(["whoami", "--key", "lk_wrong"])).code).toBe(1);
});

it("shows the state on one screen, and what to repair", async () => {
  const application = createServer((_request, response) => response.end()).listen(0, "127.0.0.1");
  onTestFinished(() => void application.close());
  await new Promise((resolve) => application.once("listening", resolve));
  const forwardUrl = `http://127.0.0.1:${(application.address() as AddressInfo).port}/hooks/secret`;
  const sidecar = await startTestSidecar({ env: { LATCHKEY_FORWARD_URL: forwardUrl } });
  const run = commandsAgainst(sidecar);
  const status = await run(["status"], { isTerminal: true, columns: 80 });
  expect([status.code, status.err]).toEqual([0, ""]);
  expect(status.out).toMatch(/^latchkey +\S+ at http[\s\S]*\nENVIRONMENT[\s\S]*\ndev +0 +0 +0 +0 waiting/);
  expect(status.out.split("\n").filter((line) => line.length > 80)).toEqual([]);
  const good = await run(["doctor"]);
  expect([good.code, good.err]).toEqual([0, ""]);
  expect(good.out).toMatch(/^ok +data listener[\s\S]*\nok +control plane[\s\S]*\nok +clock[\s\S]*\nok +redirect URI/);
  expect(good.out).toMatch(/\nwarn +public URL[^\n]*not https[\s\S]*\nok +store[\s\S]*\nok +forward URL/);
  // The path of a forward URL may hold a secret.
  expect(good.out).not.toContain("secret");
  const findings = (await run(["doctor", "--json", "--data", "http://127.0.0.1:1"])).out.trimEnd().split("\n");
  expect(JSON.parse(findings[0] ?? "")).toMatchObject({ check: "data listener", status: "fail" });
  const wrongKey = await run(["doctor", "--key", "lk_wrong"]);
  expect([wrongKey.code, wrongKey.out]).toEqual([
    1,
    expect.stringMatching(/\nfail +key +the key is not known\n +→ give a key/),
  ]);
  const checkout = await commandsAgainst(sidecar, { npm_lifecycle_event: "latchkey" })(["doctor", "--key", "lk_wrong"]);
  expect(checkout.out).toContain("`npm run -s latchkey -- dev`");
});

it("asks a person for an integration, and says what to do next", async () => {
  const sidecar = await startTestSidecar();
  const run = commandsAgainst(sidecar);
  const answers = ["no-such", "goog", "google-cal", "1", "", "my-client", "hush-hush", "", ""].join("\n");
  const made = await run(["integrations", "create"], { stdin: answers, canAsk: true, isTerminal: true, columns: 80 });
  expect([made.code, made.out]).toEqual([0, "\nCreated the integration google-calendar.\n"]);
  expect(made.err).toContain('No provider contains "no-such".');
  expect(made.err).toMatch(/Register this redirect URI in your OAuth app:\n {2}http\S+\/oauth\/callback\n/);
  expect(made.err).toMatch(/latchkey connect google-calendar --end-user me -e dev\n$/);
  expect(made.err).not.toContain("hush-hush");
  const { body } = await sidecar.rest("GET", "/integrations/google-calendar?include=credentials");
  expect(body.data).toMatchObject({ provider: "google-calendar", credentials: { client_id: "my-client" } });

  const later = await run(["integrations", "create", "hub"], { stdin: "github\n\n", canAsk: true, isTerminal: true });
  expect(later.err).toContain("To see its redirect URI first, leave the client ID empty.");
  expect(later.err).toMatch(/Register this redirect URI in your OAuth app:\n {2}http\S+\/oauth\/callback\/\S+\n/);
  expect(later.err).toContain("integrations update hub -e dev --client-id ID --client-secret-file FILE");
  await run(["integrations", "delete", "hub", "--yes"], {});

  const keyed = await run(["integrations", "create", "mine"], {
    stdin: "private-api-key\n",
    canAsk: true,
    isTerminal: true,
  });
  expect([keyed.code, keyed.err]).toEqual([0, expect.not.stringContaining("Client ID")]);
  expect(await run(["integrations", "create", "other"])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/missing: --provider or --mcp, as in: latchkey integrations create/),
  });

  const kept = await run(["integrations", "delete", "mine"], { stdin: "n\n", canAsk: true, isTerminal: true });
  expect([kept.code, kept.err]).toEqual([1, expect.stringContaining("Delete the integration mine? [y/N]")]);
  expect((await run(["integrations", "list", "-o", "name"])).out).toBe("google-calendar\nmine\n");
  expect((await run(["integrations", "list", "-o", "yaml"])).out).toMatch(
    /^- environment: dev\n {2}key: google-calendar/,
  );
  const sure = await run(["integrations", "delete", "mine", "--yes"], { canAsk: true, isTerminal: true });
  expect([sure.code, sure.err]).toEqual([0, ""]);
  expect((await run(["__names", "integrations"])).out).toBe("google-calendar\n");
  expect((await run(["__names", "environments"])).out).toBe("dev\n");
});

it("prints pages instead of opening them without a terminal", async () => {
  process.chdir(await temporaryFolder());
  const sidecar = await startTestSidecar();
  const run = commandsAgainst(sidecar);
  expect((await run(["open", "health"])).out).toBe(`${sidecar.data}/health\n`);
  expect((await run(["open", "connect"])).out).toMatch(/^http\S+session_token=\S+\n$/);
  expect((await run(["open", "sandbox"])).err).toContain("no `latchkey dev` runs in this folder");
});

it("signs in to the dashboard by a link, and shows and ends browser sessions", async () => {
  const off = commandsAgainst(await startTestSidecar());
  expect((await off(["open"])).err).toContain("set LATCHKEY_UI to on");
  const sidecar = await startTestSidecar({ env: { LATCHKEY_UI: "on" } });
  const run = commandsAgainst(sidecar);
  const { out, err } = await run(["open"]);
  const [, origin = "", link] = /^(http:\S+)\/ui\/sign-in#link=([\w-]{43})\n$/.exec(out) ?? [];
  expect([origin, err]).toEqual([sidecar.control, "The link signs in one browser, within a minute.\n"]);
  const { cookie } = await signIn(origin, { link });
  const [, id = ""] = /=([\w-]{22})\./.exec(cookie) ?? [];
  expect((await run(["sessions", "list"])).out).toMatch(new RegExp(`^ID[^\n]*\n${id} +admin-key +all `));
  expect((await run(["sessions", "revoke", id])).out).toBe(`signed out the browser session ${id}\n`);
  expect((await run(["sessions", "list"])).err).toContain("no browser sessions");
});
