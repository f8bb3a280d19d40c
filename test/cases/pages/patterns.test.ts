import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { BadRequestSchema } from "../../../src/gen/google/rpc/error_details_pb.ts";
import { ProviderSchema, ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { browserOfFile } from "../../support/peers/chromium.ts";
import { connecting } from "../../support/sidecar/connecting.ts";
import { adminKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/** Kinds without a form: such connections are imported, or an app is installed at the provider. */
const formless: readonly (string | undefined)[] = [
  "app",
  "awsSigv4",
  "tba",
  "jwt",
  "twoStep",
  "signature",
  "clientCertificate",
];

/** One provider of the catalogue for each kind of form: by its credentials and the fields that end users fill. */
const withForms = [
  ...new Map(
    [...loadCatalogue().values()]
      .filter(({ auth }) => !formless.includes(auth.case))
      .map((provider) => {
        const fields = provider.connectionFields.filter(({ automatic }) => !automatic);
        const shape = fields.map(({ pattern, suffixes, required }) => [pattern, suffixes, required]);
        return [JSON.stringify([provider.auth.case, shape]), provider];
      }),
  ).values(),
];

/** Those whose form has a field with a pattern, with a value that does not match it. */
const withPatterns = withForms.flatMap((provider) => {
  const fields = provider.connectionFields.filter(({ automatic, pattern }) => !automatic && pattern !== "");
  return fields.length === 0 ? [] : [{ name: provider.name, fields }];
});

function integrationOf(name: string) {
  const provider = loadCatalogue().get(name);
  const kind = provider?.auth.case;
  const settings = provider?.integrationSettings.filter(({ required }) => required) ?? [];
  return {
    environment: "dev",
    key: name,
    provider: name,
    ...(kind === "oauth2" || kind === "oauth1"
      ? { oauth: { client_id: "c", client_secret: { env: "APP_SECRET" } } }
      : {}),
    settings: Object.fromEntries(settings.map(({ name: setting, example }) => [setting, example])),
  };
}
const declared = withPatterns.map(({ name }) => integrationOf(name));

describe.skipIf(lacks("chromium"))("in a browser", () => {
  const newPage = browserOfFile();

  it("finds no mistake in the form of any provider", async () => {
    const all = await connecting({ integrations: withForms.map(({ name }) => integrationOf(name)) });
    const page = await newPage();
    const said: string[] = [];
    page.on("console", (message) => said.push(message.text()));
    let forms = 0;
    for (const { name } of withForms) {
      const token = await all.session({ allowed_integrations: [name] });
      await page.goto(`${all.sidecar.data}/connect/?session_token=${token}`);
      const shown = await page.locator("form").count();
      if (shown === 0) said.push(`${name} has no form: ${await page.locator("main").innerText()}`);
      forms += shown;
      for (const input of await page.locator("form input:not([type=hidden])").all()) await input.fill("not ${value}/");
      if ((await page.locator("form [pattern]").count()) > 0) await page.locator("form button:not([type])").click();
    }
    expect([forms, said]).toEqual([withForms.length, []]);
  });

  it("checks each provider's fields before anything is sent, and reports no invalid expression", {
    timeout: 60_000,
  }, async () => {
    expect(withPatterns.length).toBeGreaterThanOrEqual(6);
    const all = await connecting({ integrations: declared });
    const page = await newPage();
    const said: string[] = [];
    page.on("console", (message) => said.push(message.text()));
    const sent: string[] = [];
    for (const { name, fields } of withPatterns) {
      const token = await all.session({ allowed_integrations: [name] });
      await page.goto(`${all.sidecar.data}/connect/?session_token=${token}`);
      page.on("request", (request) => sent.push(`${name} ${request.url()}`));
      const url = page.url();
      for (const field of fields) await fieldOf(page, field.name).fill("Not a ${value}/");
      for (const input of await page.locator("input[type=password]").all()) await input.fill("a-secret");
      await page.getByRole("button", { name: "Connect" }).click();
      for (const field of fields) {
        const isMismatch = "(input) => input.validity.patternMismatch";
        expect([name, field.name, await fieldOf(page, field.name).evaluate(evaluated(isMismatch))]).toEqual([
          name,
          field.name,
          true,
        ]);
        await fieldOf(page, field.name).fill(field.example);
        const isValid = "(input) => input.validity.valid";
        expect([name, field.example, await fieldOf(page, field.name).evaluate(evaluated(isValid))]).toEqual([
          name,
          field.example,
          true,
        ]);
      }
      expect(page.url()).toBe(url);
      page.removeAllListeners("request");
    }
    expect(sent).toEqual([]);
    expect(said).toEqual([]);
  });
});

const fieldOf = (page: Page, name: string) => page.locator(`[name="params[${name}]"]`);
// The tests' own types know no DOM.
const evaluated = (code: string) =>
  new Function("element", `return (${code})(element)`) as (element: unknown) => unknown;

it.each([
  ["[a-z0-9-]+", "write [a-z0-9\\-]+"],
  ["[-a-z]+(x[/|])?", "write [\\-a-z]+(x[\\/\\|])?"],
  ["[^(a)]", "write [^\\(a\\)]"],
  ["[+--_]|[\\w\\]-]", "write [+-\\-_]|[\\w\\]\\-]"],
  ["[a&&b]", "write [a&b]"],
])("refuses a customer's pattern %s, which browsers cannot read, and shows the right form", async (pattern, advice) => {
  const { sidecar } = await connecting();
  const providers = sidecar.client(ProviderService, adminKey);
  const provider = (value: string) =>
    create(ProviderSchema, {
      name: "mine",
      auth: { case: "apiKey", value: {} },
      connectionFields: [{ name: "shop", pattern: value }],
    });
  const refusal = await providers.createProvider({ provider: provider(pattern) }).then(
    () => [],
    (error: unknown) =>
      ConnectError.from(error)
        .findDetails(BadRequestSchema)
        .flatMap((one) => one.fieldViolations),
  );
  expect(refusal).toEqual([
    expect.objectContaining({ field: expect.stringMatching(/pattern$/), description: expect.stringContaining(advice) }),
  ]);
  const written = /write (\S+)$/.exec(advice)?.[1] ?? "[a-z]";
  await providers.createProvider({ provider: provider(written) });
});
