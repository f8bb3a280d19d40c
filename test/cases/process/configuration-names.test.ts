import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { secretKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";

const K = "an-application-key-of-length";

/** Runs `serve` with this file until it refuses it. */
async function refusal(text: string, env: Readonly<Record<string, string>> = {}) {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  await writeFile(path, text);
  const variables = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, K, ...env };
  const running = launch(["serve"], { env: variables, folder: join(folder, "data") });
  const code = await running.exited;
  return { code, said: running.stderr().replaceAll(path, "latchkey.yaml") };
}

const prod = "environments:\n  - name: prod\n";
const cal = "  - { environment: prod, key: cal, provider: calendar }\n";
const alias = (more: string) => `aliases:\n  - { name: a, connection: ada, ${more} }\n`;

it.each([
  [
    "two integrations of one key",
    `${prod}integrations:\n${cal}  - { environment: prod, key: cal, provider: slack }\n`,
    'latchkey.yaml:5:26: the integration "cal" of the environment "prod" is a duplicate (first at line 4)',
  ],
  [
    "two environments",
    `${prod}  - name: prod\n`,
    'latchkey.yaml:3:5: the environment "prod" is a duplicate (first at line 2)',
  ],
  [
    "two keys of one id",
    "environments:\n  - name: a\n    keys: [{ id: app, key: { env: K } }]\n" +
      "  - name: b\n    keys: [{ id: app, key: { env: K } }]\n",
    'latchkey.yaml:5:14: the key id "app" is a duplicate (first at line 3)',
  ],
  [
    "two providers",
    "providers:\n  - { name: x, api_key: {} }\n  - { name: x, api_key: {} }\n",
    'latchkey.yaml:3:7: the provider "x" is a duplicate (first at line 2)',
  ],
  [
    "two aliases",
    `${alias("environment: dev, integration: cal")}  - { name: a, environment: dev, integration: cal, connection: b }\n`,
    'latchkey.yaml:3:7: the alias "a" is a duplicate (first at line 2)',
  ],
  [
    "an integration of an environment that is not declared",
    `${prod}integrations:\n  - { environment: prdo, key: cal, provider: calendar }\n`,
    'latchkey.yaml:4:7: the integration "cal": the environment "prdo" is not declared. Did you mean "prod"?',
  ],
  [
    "an alias of an integration that does not exist",
    `${prod}integrations:\n${cal}${alias("environment: prod, integration: caal")}`,
    'latchkey.yaml:6:52: the alias "a": there is no integration "caal" in "prod". Did you mean "cal"?',
  ],
  [
    "an alias of an environment that does not exist",
    `${prod}integrations:\n${cal}${alias("environment: prdo, integration: cal")}`,
    'latchkey.yaml:6:33: the alias "a": there is no environment "prdo". Did you mean "prod"?',
  ],
  [
    "a mistyped key",
    `${prod}integrations:\n  - { enviroment: prod, key: cal, provider: calendar }\n`,
    'latchkey.yaml:4:7: integrations[0].enviroment: unknown key. Did you mean "environment"?',
  ],
  [
    "a key that is missing",
    `${prod}integrations:\n  - { key: cal, provider: calendar }\n`,
    "latchkey.yaml:4:5: integrations[0].environment: is required",
  ],
])("F02 refuses %s and names the place", async (_, text, message) => {
  const { code, said } = await refusal(text);
  expect(code).toBe(78);
  expect(said).toContain(message);
});

it("F02 reports all of it at once", async () => {
  const { said } = await refusal(`${prod}  - name: prod\nintegrations:\n${cal}${cal}${alias("environment: x")}`);
  expect(said).toContain("aliases[0].integration: is required");
  const both = await refusal(`${prod}  - name: prod\nintegrations:\n${cal}${cal}`);
  expect(both.said.match(/is a duplicate/g)).toHaveLength(2);
});

it("F07 refuses a changed file with such names, names the place, and keeps the current configuration", {
  timeout: 30_000,
}, async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const good = `${prod}    keys: [{ id: app, key: { env: K } }]\nintegrations:\n${cal}`;
  await writeFile(path, good);
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, K };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  for (const [text, message] of [
    [`${good}${cal}`, "latchkey.yaml:6:26"],
    [`${good}${alias("environment: prod, integration: cla")}`, "latchkey.yaml:7:52"],
  ] as const) {
    // Written in one step: a half-written file may be valid.
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
    running.child.kill("SIGHUP");
    await running.says(message);
  }
  const answer = await fetch(`${running.address("data")}/integrations`, { headers: { authorization: `Bearer ${K}` } });
  const { data } = (await answer.json()) as { data: readonly { provider: string }[] };
  expect(answer.status).toBe(200);
  expect(data.map(({ provider }) => provider)).toEqual(["calendar"]);
});

it("takes an alias of an integration that the store has, and warns of one that may come", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  await writeFile(path, alias("environment: dev, integration: later"));
  const running = await serveInProcess({ folder: join(folder, "data"), env: { LATCHKEY_CONFIG: path } });
  expect(running.stdout()).toContain('there is no integration \\"later\\" in \\"dev\\"');
});

it("names the aliases of connections that do not exist, at start and on a reload", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const text =
    "integrations: [{ environment: dev, key: ours, provider: example-api-key }]\n" +
    "aliases:\n" +
    ["ada", "bob"]
      .map((id) => `  - { name: of-${id}, environment: dev, integration: ours, connection: ${id} }\n`)
      .join("");
  await writeFile(path, `environments: [{ name: dev }]\n${text}`);
  const running = await serveInProcess({ folder: join(folder, "data"), env: { LATCHKEY_CONFIG: path } });
  const warnings = () =>
    running
      .stdout()
      .split("\n")
      .filter((line) => line.includes("aliases name connections that do not exist"))
      .map((line) => (JSON.parse(line) as { aliases: readonly string[] }).aliases);
  expect(warnings()).toEqual([["of-ada: dev/ours/ada", "of-bob: dev/ours/bob"]]);

  const headers = { authorization: `Bearer ${secretKey}`, "content-type": "application/json" };
  const body = { provider_config_key: "ours", connection_id: "ada", credentials: { type: "API_KEY", apiKey: "k" } };
  const made = await fetch(`${running.address("data")}/connections`, {
    ...{ method: "POST", headers, body: JSON.stringify(body) },
  });
  expect(made.status).toBe(201);
  running.child.kill("SIGHUP");
  await expect.poll(warnings).toHaveLength(2);
  expect(warnings()[1]).toEqual(["of-bob: dev/ours/bob"]);
});

it("takes integrations of the environment dev from a file that declares no environment", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  await writeFile(path, "integrations:\n  - { environment: dev, key: chat, provider: slack }\n");
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: K };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  const shown = async () => {
    const headers = { authorization: `Bearer ${K}` };
    const answer = await fetch(`${running.address("data")}/integrations`, { headers });
    return ((await answer.json()) as { data: readonly { unique_key: string }[] }).data.map((one) => one.unique_key);
  };
  expect(await shown()).toEqual(["chat"]);
  await writeFile(`${path}.new`, "integrations:\n  - { environment: dev, key: talk, provider: slack }\n");
  await rename(`${path}.new`, path);
  running.child.kill("SIGHUP");
  await expect.poll(shown).toEqual(["chat", "talk"]);
  const typo = await refusal("integrations:\n  - { environment: dve, key: chat, provider: slack }\n");
  expect(typo.said).toContain('the environment "dve" is not declared. Did you mean "dev"?');
});

/** The variables that Kubernetes sets for Services called `latchkey` and `latchkey-ops`. */
const links = {
  LATCHKEY_PORT: "tcp://10.0.0.1:3003",
  LATCHKEY_PORT_3003_TCP: "tcp://10.0.0.1:3003",
  LATCHKEY_PORT_3003_TCP_ADDR: "10.0.0.1",
  LATCHKEY_PORT_3003_TCP_PORT: "3003",
  LATCHKEY_PORT_3003_TCP_PROTO: "tcp",
  LATCHKEY_SERVICE_HOST: "10.0.0.1",
  LATCHKEY_SERVICE_PORT: "3003",
  LATCHKEY_SERVICE_PORT_DATA: "3003",
  LATCHKEY_OPS_SERVICE_HOST: "10.0.0.2",
  LATCHKEY_OPS_SERVICE_PORT_METRICS: "3005",
  LATCHKEY_OPS_PORT: "udp://10.0.0.2:3005",
  LATCHKEY_OPS_PORT_3005_UDP_ADDR: "10.0.0.2",
};

it("ignores the variables that Kubernetes sets for Services, with one warning", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder(), env: links });
  const lines = running.stdout().split("\n");
  expect(lines.filter((line) => line.includes("enableServiceLinks: false"))).toHaveLength(1);
  expect(lines.filter((line) => line.includes('"level":"warn"'))).toHaveLength(1);
});

it.each([
  ["LATCHKEY_PUBLIK_URL", "https://x.example", 'Did you mean "LATCHKEY_PUBLIC_URL"?'],
  ["LATCHKEY_PORT", "8080", "LATCHKEY_PORT is not a variable of Latchkey"],
  ["LATCHKEY_SEAL_KEY", "x", 'Did you mean "LATCHKEY_SEAL_KEYS"?'],
  ["LATCHKEY_SEAL_KEYS_FIEL", "/x", 'Did you mean "LATCHKEY_SEAL_KEYS_FILE"?'],
])("refuses the mistyped variable %s", async (name, value, message) => {
  const { code, said } = await refusal("{}", { ...links, [name]: value });
  expect(code).toBe(78);
  expect(said).toContain(message);
  expect(said).not.toContain("SERVICE_HOST");
});
