import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch } from "../../support/sidecar/process.ts";

const secret = "a-secret-that-nobody-may-read";
const good = `
environments:
  - name: prod
    keys: [{ id: app, key: { file: KEYFILE }, scopes: [proxy] }]
    variables: { REGION: eu, MAILER: ${secret} }
integrations:
  - { environment: prod, key: calendar, provider: google-calendar, oauth: { client_id: abc, client_secret: { env: APP_SECRET } } }
  - { environment: prod, key: hub, provider: github }
retention: { logs: 7d }
`;

async function laidOut() {
  const folder = await temporaryFolder();
  writeFileSync(join(folder, "app-key"), "lk_0123456789abcdefghijklmnopqrstuvwxyz0123", { mode: 0o600 });
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text.replaceAll("KEYFILE", join(folder, "app-key")));
    return join(folder, name);
  };
  const run = async (words: readonly string[], env: Readonly<Record<string, string | undefined>> = {}) => {
    const running = launch(words, { folder, env: { APP_SECRET: secret, ...env } });
    const code = await running.exited;
    const text = running.stdout() + running.stderr();
    expect(text).not.toContain(secret);
    return { code, out: running.stdout(), err: running.stderr() };
  };
  return { folder, write, run };
}

it("checks a file: reports all mistakes at once, and changes nothing", async () => {
  const { folder, write, run } = await laidOut();
  const file = write("latchkey.yaml", good);
  expect(await run(["config", "check", file])).toMatchObject({ code: 0, out: "the configuration is valid\n" });
  expect(await run(["config", "check"], { LATCHKEY_CONFIG: file })).toMatchObject({ code: 0 });
  const alone = await run(["config", "check", file], { LATCHKEY_SEAL_KEYS: undefined });
  expect(alone).toMatchObject({ code: 0, err: expect.stringContaining("LATCHKEY_SEAL_KEYS is not set here") });
  expect((await run(["config", "check"], { LATCHKEY_SEAL_KEYS: undefined })).code).toBe(78);

  const bad = write(
    "bad.yaml",
    `${good.replace("google-calendar", "gooogle").replace("environment: prod, key: hub", "environment: none, key: hub")}`
      .replace("retention: { logs: 7d }", "retention: { logs: never }")
      .replace("KEYFILE", "/nowhere/key"),
  );
  const checked = await run(["config", "check", bad], { APP_SECRET: undefined });
  expect(checked.code).toBe(78);
  for (const part of ['"none" is not declared', "retention.logs", "/nowhere/key", "APP_SECRET is not set"]) {
    expect(checked.err).toContain(part);
  }
  const unknown = write("unknown.yaml", good.replace("google-calendar", "gooogle"));
  const json = await run(["config", "check", unknown, "--json"]);
  expect([json.code, JSON.parse(json.out)]).toEqual([
    78,
    { valid: false, warnings: [], mistakes: [expect.stringContaining('"gooogle" is neither in the catalog')] },
  ]);
  const near = write("near.yaml", good.replace("google-calendar", "google-calender"));
  expect((await run(["config", "check", near])).err).toMatch(/near\.yaml:7:\d+: .*Did you mean "google-calendar"\?\n/);
  const misplaced = write("misplaced.yaml", good.replace("client_id: abc", `client_id: { value: ${secret} }`));
  expect((await run(["config", "check", misplaced])).code).toBe(78);
  expect((await run(["config", "check", join(folder, "none.yaml")])).err).toContain(
    "cannot be read (ENOENT): there is no such file",
  );
  // The command created neither a store nor a key.
  expect(readdirSync(folder).filter((name) => !/yaml$|^app-key$/.test(name))).toEqual([]);
  expect(existsSync(join(folder, "store"))).toBe(false);
});

it("shows what a file would change, by name and without secrets", async () => {
  const { write, run } = await laidOut();
  const before = write("before.yaml", good);
  const after = write(
    "after.yaml",
    `${good
      .replace("client_id: abc", "client_id: def")
      .replace("APP_SECRET", "OTHER_SECRET")
      .replace(`MAILER: ${secret}`, `MAILER: another-${secret}`)
      .replace("REGION: eu, ", "")
      .replace("  - { environment: prod, key: hub, provider: github }\n", "")
      .replace(
        "logs: 7d",
        "logs: 8d",
      )}aliases: [{ name: ada, environment: prod, integration: calendar, connection: ada }]\n`,
  );
  const env = { OTHER_SECRET: secret };
  const same = await run(["config", "diff", before, before], env);
  expect([same.code, same.out, same.err]).toEqual([0, "", "nothing would change\n"]);
  const changed = await run(["config", "diff", after], { ...env, LATCHKEY_CONFIG: before });
  expect(changed.code).toBe(1);
  expect(changed.out.split("\n")).toEqual(
    expect.arrayContaining([
      '+ aliases.ada.name: "ada"',
      "~ environments.prod.variables.MAILER: changed",
      "- environments.prod.variables.REGION",
      '~ integrations.prod/calendar.oauth.client_id: "abc" -> "def"',
      '~ integrations.prod/calendar.oauth.client_secret: {"env":"APP_SECRET"} -> {"env":"OTHER_SECRET"}',
      '- integrations.prod/hub.provider: "github"',
      '~ retention.logs: "7d" -> "8d"',
    ]),
  );
  const lines = (await run(["config", "diff", after, before, "--json"], env)).out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toContainEqual({
    path: "environments.prod.variables.MAILER",
    kind: "changed",
  });
  // The order of named entries has no meaning.
  const [head = "", tail = ""] = good.split("integrations:\n");
  const [first = "", second = "", ...rest] = tail.split("\n");
  const turned = write("turned.yaml", [`${head}integrations:`, second, first, ...rest].join("\n"));
  expect((await run(["config", "diff", turned, before], env)).code).toBe(0);
  expect((await run(["config", "diff", write("bad.yaml", "nonsense: 1"), before], env)).code).toBe(78);
  expect((await run(["config", "diff", after], env)).code).toBe(2);
});

it("checks only the variables without a file, and reports that", async () => {
  const { run } = await laidOut();
  expect(await run(["config", "check"])).toEqual({
    code: 0,
    out: "the environment variables are valid\n",
    err: "latchkey: no configuration file was checked: give FILE, or set LATCHKEY_CONFIG\n",
  });
});

it("refuses an alias to an integration that the file does not have, as serve does", async () => {
  const { write, run } = await laidOut();
  const alias = "aliases: [{ name: ada, environment: prod, integration: calender, connection: ada }]\n";
  const checked = await run(["config", "check", write("alias.yaml", `${good}${alias}`)]);
  expect(checked.code).toBe(78);
  expect(checked.err).toMatch(
    /alias\.yaml:\d+:\d+: the alias "ada": there is no integration "calender" in "prod"\. Did/,
  );
});

it("names the place of an unknown field in a provider's description", async () => {
  const { write, run } = await laidOut();
  const custom = "providers:\n  - name: own\n    api_key: { heade: x-key }\n";
  const checked = await run(["config", "check", write("own.yaml", `${good}${custom}`)]);
  expect(checked.code).toBe(78);
  expect(checked.err).toMatch(
    /own\.yaml:12:16: providers\[0\]\.api_key\.heade: unknown key\. Did you mean "header"\?\n/,
  );
});

it("hides the query's values of a URL in a difference", async () => {
  const { write, run } = await laidOut();
  const forwarding = (url: string) => good.replace("- name: prod", `- name: prod\n    forward: { url: "${url}" }`);
  const before = write("before.yaml", forwarding(`https://app.example/hook?token=${secret}&v=1`));
  const moved = write("moved.yaml", forwarding(`https://other.example/hook?token=${secret}&v=1`));
  expect((await run(["config", "diff", moved, before])).out).toBe(
    '~ environments.prod.forward.url: "https://app.example/hook?token=…&v=…" -> "https://other.example/hook?token=…&v=…"\n',
  );
  const rotated = write("rotated.yaml", forwarding(`https://app.example/hook?token=new-${secret}&v=1`));
  expect((await run(["config", "diff", rotated, before])).out).toBe("~ environments.prod.forward.url: changed\n");
});

it("shows the configuration in force with the origin of each value, and no secret", async () => {
  const { folder, write, run } = await laidOut();
  const file = write("latchkey.yaml", good);
  const shown = await run(["config", "show", file], { LATCHKEY_LOG_LEVEL: "warn" });
  expect([shown.code, shown.err]).toEqual([0, ""]);
  const settings = new Map(shown.out.split("\n").map((line) => [line.split(/ +/)[0], line.replaceAll(/ +/g, " ")]));
  expect(settings.get("LATCHKEY_LOG_LEVEL")).toBe("LATCHKEY_LOG_LEVEL env warn");
  expect(settings.get("LATCHKEY_DRAIN_DELAY")).toBe("LATCHKEY_DRAIN_DELAY default 0s");
  expect(settings.get("LATCHKEY_SEAL_KEYS")).toBe("LATCHKEY_SEAL_KEYS env ***");
  expect(settings.get("integrations.prod/hub.provider")).toBe("integrations.prod/hub.provider file:8 github");
  expect(settings.get("environments.prod.variables.MAILER")).toBe("environments.prod.variables.MAILER file:5 ***");
  const json = (await run(["config", "show", file, "--json"])).out.trim().split("\n");
  expect(JSON.parse(json.at(-1) ?? "")).toEqual({ name: "retention.logs", value: "7d", from: "file", line: 9 });
  const wrong = await run(["config", "show", write("bad.yaml", "enviroments: []")]);
  expect([wrong.code, wrong.out]).toEqual([78, ""]);
  expect(readdirSync(folder).toSorted()).toEqual(["app-key", "bad.yaml", "latchkey.yaml"]);
});
