import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A folder as the kubelet mounts a ConfigMap or a Secret: every file a link into `..data`, a link that is swapped. */
export interface Projected {
  readonly folder: string;
  /** Replaces all files at once, like a change of the object. */
  swap(files: Readonly<Record<string, string>>): Promise<void>;
}

export async function project(folder: string, files: Readonly<Record<string, string>>): Promise<Projected> {
  await mkdir(folder, { recursive: true });
  let current: string | undefined;

  async function swap(wanted: Readonly<Record<string, string>>): Promise<void> {
    const former = current;
    current = await mkdtemp(join(folder, "..2026_11_22_"));
    for (const [name, text] of Object.entries(wanted)) {
      // The mode of `defaultMode: 0440`.
      await writeFile(join(current, name), text, { mode: 0o440 });
    }
    await symlink(current, join(folder, "..data_tmp"));
    await rename(join(folder, "..data_tmp"), join(folder, "..data"));
    if (former !== undefined) await rm(former, { recursive: true });
  }

  await swap(files);
  for (const name of Object.keys(files)) await symlink(join("..data", name), join(folder, name));
  return { folder, swap };
}
