import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { Integration_Callback, IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { auditOf, connecting, departure, tokenCalls } from "../../support/sidecar/connecting.ts";
import { adminKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

/** A provider at the sandbox without an issuer, under another name. */
const nameless = (name: string) => (origin: string) => ({
  name,
  oauth2: {
    authorization_url: `${origin}/oauth2/auth`,
    token_url: `${origin.replace("http:", "https:")}/oauth2/token`,
    default_scopes: ["email"],
  },
  proxy: { base_url: origin.replace("http:", "https:") },
});
const app = { client_id: "sandbox", client_secret: "sandbox-secret" };
const bound = /\/oauth\/callback\/[A-Za-z0-9_-]{22}$/;

const twoNameless = () => connecting({ providers: (origin) => [nameless("one")(origin), nameless("two")(origin)] });

it("gives a new integration its own address if providers' answers could be mixed up", async () => {
  const all = await twoNameless();
  const { rest, data } = all.sidecar;
  const created = async (unique_key: string, provider: string, more = {}) =>
    (
      await rest("POST", "/integrations", {
        body: { unique_key, provider, credentials: { type: "OAUTH2", ...app }, ...more },
      })
    ).body.data;
  const [one, two] = [await created("one", "one"), await created("two", "two")];
  expect(one.callback_url).toMatch(bound);
  expect(two.callback_url).toMatch(bound);
  expect(one.callback_url).not.toBe(two.callback_url);
  // By the issuer of their descriptions.
  for (const provider of ["calendar", "unified", "file-storage", "google-calendar", "sandbox-oauth1"]) {
    expect([provider, (await created(`new-${provider}`, provider, { credentials: undefined })).callback_url]).toEqual([
      provider,
      `${data}/oauth/callback`,
    ]);
  }
  expect((await created("asked", "one", { callback: "shared" })).callback_url).toBe(`${data}/oauth/callback`);
  expect((await rest("GET", "/integrations/asked")).body.data.callback_url).toBe(`${data}/oauth/callback`);
  const patched = await rest("PATCH", "/integrations/asked", { body: { callback: "bound" } });
  expect(patched.body.data.callback_url).toMatch(bound);
  const wrong = await rest("PATCH", "/integrations/asked", { body: { callback: "own" } });
  expect([wrong.status, wrong.body.error.errors[0].path]).toEqual([400, ["callback"]]);
  expect(
    (await rest("GET", "/integrations")).body.data.map((each: { callback_url: string }) => each.callback_url),
  ).toContain(one.callback_url);
  // Typed-in credentials need no registered callback.
  const keyed = await rest("POST", "/integrations", { body: { unique_key: "keyed", provider: "example-api-key" } });
  expect(keyed.body.data).not.toHaveProperty("callback_url");
});

it("stops an answer that one provider had given for another (mix-up)", async () => {
  const all = await twoNameless();
  for (const unique_key of ["one", "two"]) {
    const body = { unique_key, provider: unique_key, credentials: { type: "OAUTH2", ...app } };
    await all.sidecar.rest("POST", "/integrations", { body });
  }
  const browser = all.browser();
  const away = await browser.get(departure(all, await all.session(), {}, "one"));
  const other = await browser.get(departure(all, await all.session(), {}, "two"));
  const uriOf = (response: Response) =>
    new URL(response.headers.get("location") ?? "").searchParams.get("redirect_uri") ?? "";
  const state = new URL(away.headers.get("location") ?? "").searchParams.get("state");
  const brought = await browser.go(`${uriOf(other)}?state=${state}&code=of-another`);
  expect([brought.status, tokenCalls(all)]).toEqual([400, 0]);
  expect((await auditOf(all, "authorization.context_mismatch")).map(({ targets }) => targets)).toEqual([["one"]]);
});

it("shows over RPC and on the command line what to register, and warns of a shared address", async () => {
  const all = await twoNameless();
  const { control, data, client } = all.sidecar;
  const run = async (...args: string[]) => {
    const terminal = memoryTerminal({ env: { LATCHKEY_CONTROL: control, LATCHKEY_KEY: adminKey } });
    expect(await runCli(["-e", "dev", ...args], terminal), terminal.err()).toBe(0);
    return terminal.out();
  };
  expect(await run("integrations", "create", "one", "--provider", "one", "--client-id", "x")).toMatch(
    new RegExp(`${data}/oauth/callback/[A-Za-z0-9_-]{22}`),
  );
  const integrations = client(IntegrationService);
  const codesOf = async (key: string) =>
    (await integrations.getIntegration({ environment: "dev", key })).integration?.warnings.map(({ code }) => code);
  expect(await codesOf("one")).toEqual([]);
  await run("integrations", "update", "one", "--callback", "shared");
  const { integration } = await integrations.getIntegration({ environment: "dev", key: "one" });
  expect(integration?.warnings.map(({ code }) => code)).toEqual(["shared_callback"]);
  expect(integration?.warnings[0]?.message).toContain("sandbox-calendar (dev)");
  // Providers with a known issuer share the callback without a code.
  expect(await codesOf("sandbox-files")).toEqual([]);
  expect(await run("integrations", "list")).toContain("shared_callback");
});

it("compares an unknown issuer with those of the integrations that share the address", async () => {
  const all = await connecting({
    providers: (origin) => [
      {
        ...nameless("hostile")(origin),
        oauth2: {
          ...nameless("hostile")(origin).oauth2,
          authorization_url: "https://hostile.example/auth",
        },
      },
    ],
  });
  const body = {
    unique_key: "hostile",
    provider: "hostile",
    credentials: { type: "OAUTH2", ...app },
    callback: "shared",
  };
  await all.sidecar.rest("POST", "/integrations", { body });
  const browser = all.browser();
  const back = async (iss: string) => {
    const away = await browser.get(departure(all, await all.session(), {}, "hostile"));
    const state = new URL(away.headers.get("location") ?? "").searchParams.get("state") ?? "";
    return browser.go(`${all.sidecar.data}/oauth/callback?${new URLSearchParams({ state, code: "of-another", iss })}`);
  };
  expect((await back(all.sandbox.origin)).text).toContain("may be from another provider");
  expect(tokenCalls(all)).toBe(0);
  // An unknown issuer is no error: many providers send one that their descriptions do not name.
  await back("https://hostile.example");
  expect(tokenCalls(all)).toBe(1);
});

it("keeps the address that an integration of the configuration file has", async () => {
  const folder = await temporaryFolder();
  const declared = (callback?: string) => ({
    "/latchkey.yaml": JSON.stringify({
      environments: [{ name: "dev" }],
      providers: [nameless("one")("https://one.example")],
      integrations: [{ environment: "dev", key: "one", provider: "one", ...(callback && { callback }) }],
    }),
  });
  const shown = async (callback?: string) => {
    const env = { LATCHKEY_CONFIG: "/latchkey.yaml" };
    const running = await startTestSidecar({ folder, env, files: declared(callback) });
    const { integration } = await running.client(IntegrationService).getIntegration({ environment: "dev", key: "one" });
    await running.stop();
    return integration?.callback;
  };
  expect(await shown()).toBe(Integration_Callback.BOUND);
  expect(await shown()).toBe(Integration_Callback.BOUND);
  expect(await shown("shared")).toBe(Integration_Callback.SHARED);
  // The file no longer names it: the callback that is registered at the provider keeps working.
  expect(await shown()).toBe(Integration_Callback.SHARED);
});
