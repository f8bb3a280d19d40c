import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { expect, it } from "vitest";
import { SyncService } from "../../src/gen/latchkey/v1/sync_pb.ts";
import { startTestSidecar, temporaryFolder } from "../support/sidecar/harness.ts";
import { kubernetes, type Manifest, render } from "./manifests.ts";
import { mistakesIn } from "./schemas.ts";

/** The sidecar overlay with one more component, as an operator writes it. */
async function withComponent(name: string): Promise<Manifest[]> {
  const folder = await temporaryFolder();
  const from = (path: string) => relative(folder, join(kubernetes, path));
  const text = `resources: [${from("overlays/sidecar")}]\ncomponents: [${from(name)}]\n`;
  await writeFile(join(folder, "kustomization.yaml"), text);
  return render(folder);
}

const podOf = (all: readonly Manifest[]) => all.find(({ kind }) => kind === "Deployment").spec.template.spec;
const scriptsVolume = (all: readonly Manifest[]) =>
  podOf(all).volumes.find(({ name }: { name: string }) => name === "scripts");

it.each(["scripts", "scripts-image"])(
  "mounts the files of the component %s where latchkey looks for them",
  async (name) => {
    const all = await withComponent(name);
    const [latchkey] = podOf(all).initContainers;
    const { value } = latchkey.env.find((one: { name: string }) => one.name === "LATCHKEY_SCRIPTS");
    expect(latchkey.volumeMounts).toContainEqual({ name: "scripts", mountPath: value, readOnly: true });
    expect(scriptsVolume(all)).toBeDefined();
    const known = name === "scripts" ? all : all.filter(({ kind }) => kind !== "Deployment");
    for (const one of known) expect(await mistakesIn(one), `${one.kind} ${one.metadata.name}`).toEqual([]);
  },
);

/** Mounts a ConfigMap like the kubelet: files in a folder behind a replaceable link, and links to its first level. */
async function mounted(folder: string, files: Readonly<Record<string, string>>) {
  let current: string | undefined;
  const swap = async (wanted: Readonly<Record<string, string>>) => {
    const former = current;
    current = await mkdtemp(join(folder, "..2026_11_23_"));
    for (const [path, text] of Object.entries(wanted)) {
      await mkdir(dirname(join(current, path)), { recursive: true });
      await writeFile(join(current, path), text, { mode: 0o440 });
    }
    await symlink(current, join(folder, "..data_tmp"));
    await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    if (former !== undefined) await rm(former, { recursive: true });
  };
  await swap(files);
  for (const top of new Set(Object.keys(files).map((path) => path.split("/")[0] ?? ""))) {
    await symlink(join("..data", top), join(folder, top));
  }
  return { swap };
}

it("reads scripts of a ConfigMap, and applies a swap of the whole folder", {
  timeout: 60_000,
}, async () => {
  const all = await withComponent("scripts");
  const { data } = all.find(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === "latchkey-scripts");
  const items: { key: string; path: string }[] = scriptsVolume(all).configMap.items;
  expect(items.map(({ key }) => key).toSorted()).toEqual(Object.keys(data).toSorted());
  const files = Object.fromEntries(items.map(({ key, path }) => [path, String(data[key])]));
  const helper = { "calendar/lib/words.ts": "export const words = 'first';" };
  const using = {
    "calendar/actions/words.ts": `
      import { createAction } from "latchkey/scripts";
      import { words } from "../lib/words.ts";
      export default createAction({ description: words, exec: async () => words });`,
  };
  const folder = await temporaryFolder();
  const volume = await mounted(folder, { ...files, ...helper, ...using });
  const { client } = await startTestSidecar({ env: { LATCHKEY_SCRIPTS: folder } });
  const shown = async () => {
    const { scripts } = await client(SyncService).listScripts({});
    return scripts.map(({ name, description, problem }) => [name, description, problem?.violations[0]?.message]);
  };
  expect(await shown()).toEqual([
    ["primary", "Returns the primary calendar.", undefined],
    ["words", "first", undefined],
  ]);
  await volume.swap({ ...files, ...using, "calendar/lib/words.ts": "export const words = 'second';" });
  await expect.poll(shown).toContainEqual(["words", "second", undefined]);
  await volume.swap(files);
  await expect.poll(shown).toEqual([["primary", "Returns the primary calendar.", undefined]]);
});
