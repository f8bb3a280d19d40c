import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";

/** The output of `serve` for a file that it refuses. */
async function refusal(text: string, env: Readonly<Record<string, string>> = {}) {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  await writeFile(path, text);
  const running = launch(["serve"], { env: { LATCHKEY_CONFIG: path, ...env }, folder: join(folder, "data") });
  const code = await running.exited;
  return { code, said: running.stderr().replaceAll(path, "latchkey.yaml") };
}

it.each([
  ["a list", "[]", "latchkey.yaml:1:1: the file: must be a map of keys"],
  ["text", "hello", "latchkey.yaml:1:1: the file: must be a map of keys"],
  ["a key without a value", "environments:\n", "latchkey.yaml:1:1: environments: must be a list"],
  ["a list of limits", "limits:\n  - path_bytes: 2048\n", "latchkey.yaml:1:1: limits: must be a map of keys"],
  ["a number too small", "limits: { path_bytes: 1 }", "limits.path_bytes: must be at least 1024\n"],
  ["a number too large", "limits: { head_lines: 9999 }", "limits.head_lines: must be at most 2000\n"],
  ["a fraction", "limits: { head_lines: 10.5 }", "limits.head_lines: must be a whole number\n"],
  ["text for a number", "limits: { head_lines: many }", "limits.head_lines: must be a number\n"],
  [
    "a word that is none of those known",
    "environments: [{ name: a }]\nintegrations: [{ environment: a, key: k, provider: slack, reflection: on }]",
    "integrations[0].reflection: must be one of off, mask, refuse\n",
  ],
  [
    "a key twice",
    "limits: {}\nlimits: {}\n",
    'latchkey.yaml:2:1: the file cannot be read: the key "limits" is a duplicate\n',
  ],
  ["an anchor that is not there", "limits: *usual\n", "latchkey.yaml cannot be read: Unresolved alias"],
  [
    "two documents",
    "limits: {}\n---\nlimits: {}\n",
    "latchkey.yaml:2:1: the file cannot be read: a second document begins here",
  ],
  [
    "a nested map in a line",
    "limits: a: b\n",
    "latchkey.yaml:1:9: the file cannot be read: Nested mappings are not allowed",
  ],
  [
    "TLS files that are not there",
    "tls: { ops: { cert: /nowhere/crt, key: /nowhere/key } }",
    "tls.ops.key: /nowhere/key cannot be read (ENOENT): there is no such file\n",
  ],
])("says what is expected instead of %s", async (_, text, message) => {
  const { code, said } = await refusal(text);
  expect(code).toBe(78);
  expect(said).toContain(message);
  expect(said).not.toMatch(/undefined|Object|Array|\n\s+at /);
});

const secret = "a-secret-that-two-keys-have";
const twoKeys = (more: string) => `environments:
  - { name: prod, keys: [{ id: app, key: { env: ONE } }] }
  - { name: stage, keys: [{ id: other, key: { env: ${more} } }] }
`;

it.each([
  ["two keys of the file", twoKeys("TWO"), { TWO: secret }, 'the key "app" and the key "other"'],
  [
    "a key and the control key",
    twoKeys("ONE_MORE"),
    { LATCHKEY_ADMIN_KEY: secret },
    'the key "app" and LATCHKEY_ADMIN_KEY',
  ],
  [
    "the two variables",
    "{}",
    { LATCHKEY_SECRET_KEY: secret, LATCHKEY_ADMIN_KEY: secret },
    "LATCHKEY_SECRET_KEY and LATCHKEY_ADMIN_KEY",
  ],
])("refuses one secret for %s", async (_, text, env, names) => {
  const { code, said } = await refusal(text, { ONE: secret, ONE_MORE: "a-secret-of-its-own", ...env });
  expect(code).toBe(78);
  expect(said).toContain(`${names} have the same secret; each key needs its own`);
  expect(said).not.toContain(secret);
});

it("takes a declared key of the default environment in place of LATCHKEY_SECRET_KEY, with its scopes", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  const key = "{ id: app, key: { env: LATCHKEY_SECRET_KEY }, scopes: [connections:read] }";
  await writeFile(path, `environments: [{ name: dev, keys: [${key}] }]\n`);
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: secret };
  const running = await serveInProcess({ folder: join(folder, "data"), env });
  const statusOf = async (route: string) =>
    (await fetch(`${running.address("data")}${route}`, { headers: { authorization: `Bearer ${secret}` } })).status;
  expect([await statusOf("/connections"), await statusOf("/integrations")]).toEqual([200, 403]);
});
