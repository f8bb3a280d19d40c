import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { describeProviders } from "../../../src/dev/sandbox/providers.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { keyWith, sidecarOfFile } from "../../support/sidecar/door.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";
import { foreignClient, type Plain } from "./foreign.ts";

const running = sidecarOfFile();
const environment = "dev";

const client = () => foreignClient(running().control);
const check = async (text: string, replaces = ""): Promise<Plain> => {
  const none = { providers: [], mistakes: [], warnings: [] };
  return { ...none, ...(await client().unary("ProviderService/CheckProvider", { text, replaces })) };
};
const setupOf = async (asked: Plain): Promise<Plain> => ({
  ...{ fields: [], steps: [] },
  ...(await client().unary("IntegrationService/GetIntegrationSetup", { environment, ...asked }))["setup"],
});
const paths = ({ fields }: Plain): string[] => fields.map(({ path }: Plain) => path);
const field = ({ fields }: Plain, path: string): Plain => fields.find((one: Plain) => one["path"] === path);

it("reports every mistake of a description with its line and column, and names that are taken", async () => {
  const { mistakes, providers } = await check(
    "name: slack\nproxy: { base_url: http://acme.example }\napi_key: { heade: x-key }\n",
  );
  expect(providers).toEqual([]);
  expect(mistakes.map(({ line, column, path }: Plain) => [line, column, path])).toEqual([
    [1, 1, "name"],
    [2, 10, "proxy.base_url"],
    [3, 12, "api_key.heade"],
  ]);
  expect(mistakes[0].message).toContain("built-in catalog");
  expect(mistakes[2].message).toContain('Did you mean "header"?');
  const notYaml = await check("name: [");
  expect(notYaml["mistakes"][0]).toMatchObject({ line: 1, message: expect.stringContaining("not YAML") });
  const deep = await check("[".repeat(20_000));
  expect(deep["mistakes"].length).toBeGreaterThan(0);
  expect(deep["mistakes"].length).toBeLessThanOrEqual(200);
});

it("checks a description that replaces another, and returns it as text that passes the same check", async () => {
  const text = "name: acme-checked\ndisplay_name: Acme\napi_key: { header: x-key }\n";
  const fresh = await check(text);
  expect([fresh["mistakes"], fresh["warnings"][0].path]).toEqual([[], "proxy.base_url"]);
  await client().unary("ProviderService/CreateProvider", { provider: fresh["providers"][0] });
  expect((await check(text))["mistakes"][0].message).toContain("another custom provider");
  expect((await check(text, "acme-checked"))["mistakes"]).toEqual([]);
  expect((await check(text.replace("acme-", "acme-re"), "acme-checked"))["mistakes"][0].message).toContain("renamed");
  const shown = await client().unary("ProviderService/GetProvider", { name: "acme-checked", include_text: true });
  expect(shown["text"]).toBe(
    text.replace("{ header: x-key }", "\n  header: x-key").replace("api_key: \n", "api_key:\n"),
  );
  const weak = await keyWith(running(), Scope.INTEGRATIONS_WRITE);
  const refused = client().unary("ProviderService/CheckProvider", { text }, { key: weak });
  await expect(refused).rejects.toThrow(/scope/);
});

it("says what an integration needs before it exists: the same URLs as afterwards", async () => {
  const before = await setupOf({ provider: "slack", key: "team" });
  expect(paths(before).slice(0, 2)).toEqual(["oauth.client_id", "secrets.client_secret"]);
  expect(before["fields"].some(({ has_value: has }: Plain) => has === true)).toBe(false);
  expect(field(before, "secrets.webhook_secret")).toMatchObject({ secret: true, kind: "KIND_LINES" });
  expect(before["steps"].find(({ value }: Plain) => value === "callback_url").text).toContain("**Redirect URLs**");
  const integration = {
    ...{ environment, key: "team", provider: "slack" },
    oauth: { client_id: "abc" },
    secrets: { client_secret: "s3cret-canary" },
  };
  const made = (await client().unary("IntegrationService/CreateIntegration", { integration }))["integration"];
  const after = await setupOf({ key: "team" });
  expect([before["callback_url"], before["webhook_url"]]).toEqual([made.callback_url, made.webhook_url]);
  expect([after["callback_url"], after["webhook_url"], after["exists"]]).toEqual([
    ...[made.callback_url, made.webhook_url, true],
  ]);
  expect(
    ["oauth.client_id", "secrets.client_secret", "oauth.scopes"].map((path) => field(after, path).has_value),
  ).toEqual([true, true, undefined]);
  expect(JSON.stringify(after)).not.toContain("s3cret-canary");
  await expect(setupOf({ key: "nothing" })).rejects.toThrow(/nothing/);
  await expect(setupOf({})).rejects.toThrow(/not valid/);
});

it("derives fields from the kind of authentication, and steps where the description has none", async () => {
  expect(paths(await setupOf({ provider: "example-api-key" }))).toEqual([]);
  const shop = await setupOf({ provider: "shopify" });
  expect(field(shop, "connection_defaults.subdomain") ?? field(shop, paths(shop).at(-1) ?? "")).toMatchObject({
    pattern: expect.stringMatching(/./),
  });
  const storage = await setupOf({ provider: "file-storage" });
  expect(storage["steps"].map(({ value = "" }: Plain) => value)).toEqual(["", "callback_url", "scopes", "client"]);
  const scopes = field(storage, "oauth.scopes");
  expect(scopes["options"].find(({ value }: Plain) => value.endsWith("/drive"))).toMatchObject({
    sensitivity: "SENSITIVITY_RESTRICTED",
  });
  expect(field(storage, "oauth.publishing")["options"].map(({ value }: Plain) => value)).toEqual([
    ...["PUBLISHING_TESTING", "PUBLISHING_PRODUCTION"],
  ]);
});

it("creates an integration with the test credentials of the sandbox, and of no other provider", async () => {
  const [files] = describeProviders("http://127.0.0.1:1");
  const { providers } = await check(JSON.stringify(files));
  await client().unary("ProviderService/CreateProvider", { provider: providers[0] });
  expect((await setupOf({ provider: "sandbox-files" }))["has_quickstart"]).toBe(true);
  const make = (key: string, provider: string) =>
    client().unary("IntegrationService/CreateIntegration", {
      integration: { environment, key, provider, oauth: { scopes: ["drive"] } },
      quickstart: true,
    });
  const { integration } = await make("trial", "sandbox-files");
  expect(integration.oauth).toMatchObject({ client_id: "sandbox", scopes: ["drive"] });
  expect(field(await setupOf({ key: "trial" }), "secrets.client_secret")["has_value"]).toBe(true);
  await expect(make("own", "unified")).rejects.toThrow(/no quickstart/);
});

it("has the same on the command line", async () => {
  const run = async (words: readonly string[], stdin = "") => {
    const env = { LATCHKEY_CONTROL: running().control, LATCHKEY_ADMIN_KEY: adminKey, NO_COLOR: "1" };
    const terminal = memoryTerminal({ env, stdin });
    return { code: await runCli(words, terminal), out: terminal.out(), err: terminal.err() };
  };
  const checked = await run(["providers", "create", "-", "--check"], "name: slack\napi_key: {}\n");
  expect(checked).toMatchObject({ code: 1, out: expect.stringMatching(/^stdin:1:1: name: is the name of a provider/) });
  const setup = await run(["integrations", "setup", "gl", "--provider", "gitlab", "-e", "dev"]);
  expect([setup.code, setup.out]).toEqual([0, expect.stringContaining("/oauth/callback")]);
});
