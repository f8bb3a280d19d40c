import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A folder as the kubelet mounts a ConfigMap or a Secret: every file a link into `..data`, a link that is swapped. */
export interface Projected {
  readonly folder: string;
  /** All at once, as when the object was changed. */
  swap(files: Readonly<Record<string, string>>): Promise<void>;
}

export async function project(folder: string, files: Readonly<Record<string, string>>): Promise<Projected> {
  await mkdir(folder, { recursive: true });
  let current: string | undefined;

  async function swap(wanted: Readonly<Record<string, string>>): Promise<void> {
    const former = current;
    current = await mkdtemp(join(folder, "..2026_11_22_"));
    for (const [name, text] of Object.entries(wanted)) {
      // As `defaultMode: 0440` has it.
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
