import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const repository = new URL("../../../", import.meta.url);

async function run(...words: readonly string[]) {
  const running = launch(words, { folder: await temporaryFolder(), env: {} });
  const code = await running.exited;
  return { code, out: running.stdout(), err: running.stderr() };
}

async function fileOf(name: string, text: string): Promise<string> {
  const path = join(await temporaryFolder(), name);
  writeFileSync(path, text);
  return path;
}

const broken = `name: acme
oauth2:
  tokn_url: https://acme.example/token
  refresh_tokens: { use: rotates, lifetime: 30d }
proxy: { base_url: http://acme.example, headers: { x-version: 1 } }
verification: { path: /me }
connection_fields:
  - { name: shop, pattern: "(" }
  - { name: shop, required: yes please }
categories: crm
api_key: {}
`;

it("reports all mistakes of a provider file, each with its place", async () => {
  const file = await fileOf("acme.yaml", broken);
  const { code, out, err } = await run("providers", "check", file);
  expect(code).toBe(1);
  expect(out.replaceAll(file, "acme.yaml").split("\n")).toEqual([
    'acme.yaml:3:3: oauth2.tokn_url: unknown key. Did you mean "token_url"?',
    'acme.yaml:4:21: oauth2.refresh_tokens.use: must be one of USE_KEEPS, USE_ROTATES, USE_NONE. Did you mean "USE_ROTATES"?',
    'acme.yaml:4:35: oauth2.refresh_tokens.lifetime: must be a duration in seconds, such as "3600s"',
    "acme.yaml:5:10: proxy.base_url: must be https",
    "acme.yaml:5:52: proxy.headers.x-version: must be text: write it in quotes",
    "acme.yaml:6:1: verification.request.path: must begin with exactly one slash",
    'acme.yaml:6:17: verification.path: unknown key. Did you mean "request.path"?',
    "acme.yaml:8:19: connection_fields[0].pattern: must be a regular expression",
    "acme.yaml:9:7: connection_fields[1].name: is a duplicate",
    "acme.yaml:9:19: connection_fields[1].required: must be true or false",
    "acme.yaml:10:1: categories: must be a list",
    "acme.yaml:11:1: api_key: cannot be combined with oauth2",
    "",
  ]);
  expect(err).toBe("12 mistakes\n");
});

it("places mistakes within a configuration file, as JSON too", async () => {
  const file = await fileOf("latchkey.yaml", "providers:\n  - name: own\n    api_key: { heade: x-key }\n");
  const { code, out } = await run("providers", "check", file, "--json");
  expect([code, JSON.parse(out)]).toEqual([
    1,
    {
      file,
      severity: "error",
      line: 3,
      column: 16,
      path: "providers[0].api_key.heade",
      message: 'unknown key. Did you mean "header"?',
    },
  ]);
});

it("warns of what a description lacks to be of use", async () => {
  const { code, out, err } = await run("providers", "check", await fileOf("acme.yaml", "name: acme\noauth2: {}\n"));
  expect([code, err]).toEqual([0, "1 provider, no mistakes\n"]);
  expect(out.match(/:\d+:\d+: warning: \S+ is missing/g)).toEqual([
    ":1:1: warning: proxy.base_url: is missing",
    ":2:1: warning: oauth2.authorization_url: is missing",
    ":2:1: warning: oauth2.token_url: is missing",
  ]);
});

it("accepts every YAML example of the guide, with GET for a request without a method", {
  timeout: 30_000,
}, async () => {
  const guide = readFileSync(new URL("docs/add-a-provider.md", repository), "utf8");
  const blocks = [...guide.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  expect(blocks.length).toBeGreaterThan(5);
  // A block without a name shows a part: it is checked as part of a least description.
  const wholes = blocks.map((text) => (/^(name|providers):/m.test(text) ? text : completed(text)));
  const files = await Promise.all(wholes.map((text, i) => fileOf(`block-${i + 1}.yaml`, text)));
  const { code, out, err } = await run("providers", "check", ...files);
  expect({ code, out, err }).toEqual({ code: 0, out: "", err: `${blocks.length} providers, no mistakes\n` });
});

const kinds =
  /^(oauth2|oauth2_client|oauth1|api_key|basic|tba|app|jwt|two_step|signature|aws_sigv4|client_certificate|none):/m;
const completed = (part: string) =>
  [
    "name: example",
    ...(kinds.test(part) ? [] : ["api_key: {}"]),
    ...(/^proxy:/m.test(part) ? [] : ["proxy: { base_url: https://api.example.com }"]),
    part,
  ].join("\n");

it("prints a JSON Schema that knows all keys, each with a description", async () => {
  const { code, out } = await run("providers", "schema");
  expect(code).toBe(0);
  const schema = JSON.parse(out);
  expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(["name", "oauth2", "console_url"]));
  expect(Object.keys(schema.properties)).not.toContain("revision");
  expect(undescribed(schema)).toEqual([]);
  const file = JSON.parse(readFileSync(new URL("src/config/file.schema.json", repository), "utf8"));
  expect(undescribed(file)).toEqual([]);
});

interface PropertySchema {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, PropertySchema>>;
}

/** Returns the paths of all properties without a description, in any part of a schema. */
function undescribed(schema: unknown, path = ""): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { properties = {} } = schema as PropertySchema;
  const own = Object.entries(properties).filter(([, one]) => !one.description);
  const inner = Object.entries(schema).flatMap(([key, one]) => undescribed(one, `${path}/${key}`));
  return [...own.map(([name]) => `${path}/${name}`), ...inner];
}
