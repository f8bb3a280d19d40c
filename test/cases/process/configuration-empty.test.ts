import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { textAt } from "../../support/sidecar/door-process.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, serveInProcess } from "../../support/sidecar/process.ts";

const key = "an-application-key-of-length";
const message = "latchkey.yaml is empty: declare something in it, or write {} to declare nothing";
/** The files that a truncated write or an empty template leaves. */
const empty: readonly (readonly [name: string, text: string])[] = [
  ["nothing", ""],
  ["blanks and line ends", " \n\n  \n"],
  ["a comment", "# environments:\n#   - name: prod\n"],
  ["the beginning of a document", "---\n"],
  ["null", "null\n"],
];

async function fileWith(text: string) {
  const folder = await temporaryFolder();
  const path = join(folder, "latchkey.yaml");
  await writeFile(path, text);
  return { folder: join(folder, "data"), path };
}

it("keeps what is declared when the file becomes empty, reports it, and accepts {}", async () => {
  const { folder, path } = await fileWith(
    "environments: [{ name: prod, keys: [{ id: app, key: { env: K } }] }]\n" +
      "integrations: [{ environment: prod, key: cal, provider: calendar }]\n",
  );
  const env = { LATCHKEY_CONFIG: path, LATCHKEY_SECRET_KEY: undefined, K: key };
  const running = await serveInProcess({ folder, env });
  const integrations = () =>
    fetch(`${running.address("data")}/integrations`, { headers: { authorization: `Bearer ${key}` } });
  const rejected = async () =>
    /^latchkey_config_rejected (\d)$/m.exec(await textAt(`${running.address("ops")}/metrics`))?.[1];
  const refusals = () => running.stdout().split(message).length - 1;
  expect(await rejected()).toBe("0");
  for (const [name, text] of empty) {
    const before = refusals();
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
    running.child.kill("SIGHUP");
    await expect.poll(refusals, { message: name }).toBeGreaterThan(before);
    const answer = await integrations();
    const { data } = (await answer.json()) as { data: readonly { unique_key: string }[] };
    expect([name, answer.status, data.map((one) => one.unique_key)]).toEqual([name, 200, ["cal"]]);
    expect(await rejected()).toBe("1");
  }
  const applied = () => running.stdout().split("the configuration file was applied").length;
  const before = applied();
  await writeFile(`${path}.new`, "{}\n");
  await rename(`${path}.new`, path);
  running.child.kill("SIGHUP");
  await expect.poll(applied).toBeGreaterThan(before);
  expect(await rejected()).toBe("0");
  expect((await integrations()).status).toBe(401);
});

it.each(empty)("starts with %s in the file and warns of it; `config diff` refuses it", async (_name, text) => {
  const { folder, path } = await fileWith(text);
  const { path: good } = await fileWith("{}\n");
  const env = { LATCHKEY_CONFIG: path };
  const running = await serveInProcess({ folder, env });
  expect(running.stdout()).toContain(message);
  const check = launch(["config", "check"], { folder, env });
  expect(await check.exited).toBe(0);
  expect(`${check.stdout()}${check.stderr()}`).toContain(message);
  for (const files of [
    [path, good],
    [good, path],
  ]) {
    const diff = launch(["config", "diff", ...files], { folder, env });
    expect([await diff.exited, diff.stderr().includes(message)]).toEqual([78, true]);
  }
});

it("starts with a file that contains {}", async () => {
  const { folder, path } = await fileWith("{}\n");
  await serveInProcess({ folder, env: { LATCHKEY_CONFIG: path } });
});
