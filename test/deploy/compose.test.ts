import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { root } from "../../bin/steps.ts";
import { parseConfig } from "../../src/config/config.ts";
import { millisecondsIn } from "../../src/core/duration.ts";
import { deployedMemory, deployedOptions } from "../bench/sidecar-process.ts";
import { adminKey, sealKey, secretKey } from "../support/sidecar/harness.ts";

interface Service {
  readonly image: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly stop_grace_period?: string;
  readonly depends_on?: Readonly<Record<string, unknown>>;
}

interface Compose {
  readonly services: Readonly<Record<"latchkey" | "database", Service>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const read = (path: string) => readFileSync(join(root, path), "utf8");
const text = read("deploy/compose.yaml");
const compose = parse(text) as Compose;
const { latchkey, database } = compose.services;

const secrets: Readonly<Record<string, string>> = {
  "seal-keys": sealKey,
  "admin-key": adminKey,
  "app-key": secretKey,
  store: "postgres://latchkey:password@database/latchkey?sslmode=disable",
};

/** Parses variables as `serve` would, with the secrets as files of mode 0440. */
const configOf = (env: Readonly<Record<string, string>>) =>
  parseConfig({
    env,
    files: {
      read(path) {
        const secret = secrets[path.split("/").at(-1) ?? ""];
        if (!path.startsWith("/run/secrets/") || secret === undefined)
          throw Object.assign(new Error(path), { code: "ENOENT" });
        return { text: secret, mode: 0o440 };
      },
    },
  });

it("has only services, secrets and volumes that it declares", () => {
  expect(Object.keys(parse(text))).toEqual(["name", "services", "volumes", "secrets"]);
  const used = [...latchkey.secrets, ...database.secrets];
  expect(Object.keys(compose.secrets).sort()).toEqual(used.sort());
  for (const [name, { file }] of Object.entries(compose.secrets)) {
    expect(file).toBe(`./secrets/${name}`);
    // The commands at the head of the file create it.
    expect(text).toMatch(new RegExp(`^# .* > ${name}( |$)`, "m"));
  }
  expect(Object.keys(latchkey.depends_on ?? {})).toEqual(["database"]);
  expect((database.volumes ?? []).map((volume) => volume.split(":")[0])).toEqual(Object.keys(compose.volumes));
});

it("keeps the secrets out of the repository and of the image, and no folder of the source", () => {
  expect(read(".gitignore").split("\n")).toEqual(expect.arrayContaining(["/secrets/", "/deploy/secrets/"]));
  expect(read(".dockerignore").split("\n")).toEqual(expect.arrayContaining(["secrets", "deploy/secrets"]));
  for (const file of [".gitignore", ".dockerignore"]) expect(read(file)).not.toMatch(/^(?:secrets\/|\*\*\/secrets)/m);
});

it("gives Latchkey variables that it accepts, and each secret as a file", () => {
  const { environment } = latchkey;
  const config = configOf(environment);
  expect(config.store).toMatchObject({ kind: "postgres" });
  for (const [name, value] of Object.entries(environment)) {
    if (/KEYS?(_FILE)?$|STORE/.test(name)) expect(value, name).toMatch(/^\/run\/secrets\//);
  }
  expect(environment["LATCHKEY_ALLOWED_HOSTS"]?.split(",")).toContain("latchkey");
  expect(environment["NODE_OPTIONS"]).toContain(deployedOptions);
  expect(environment).toMatchObject(deployedMemory);
  expect(() => configOf({ ...environment, LATCHKEY_PUBLIK_URL: "" })).toThrow("LATCHKEY_PUBLIK_URL");
});

it("publishes the ports of its listeners on this machine only, and stops after the grace period", () => {
  const listeners = Object.entries(latchkey.environment)
    .filter(([name]) => name.endsWith("_LISTEN"))
    .map(([, address]) => address.split(":")[1]);
  expect(latchkey.ports).toEqual(listeners.map((port) => `127.0.0.1:${port}:${port}`));
  expect(database.ports).toBeUndefined();
  const grace = configOf(latchkey.environment).graceMs;
  expect(millisecondsIn(latchkey.stop_grace_period ?? "")).toBeGreaterThan(grace);
});

it("shows a docker run line with variables that Latchkey accepts", () => {
  const [line = ""] = /^docker run -d [\s\S]*?0\.1\.0$/m.exec(read("deploy/README.md")) ?? [];
  const env = Object.fromEntries(
    [...line.matchAll(/-e (\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  expect(Object.keys(env).length).toBeGreaterThan(7);
  expect(() => configOf({ ...env, LATCHKEY_STORE: "level:/var/lib/latchkey/store" })).not.toThrow();
});
