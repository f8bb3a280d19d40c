import { access, chmod, constants, open, readdir, realpath, stat, unlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { StoreRefused } from "../contract.ts";
import { makeFolder } from "../make-folder.ts";
import { tailFile } from "./last-revision.ts";
import { lockFile } from "./lock.ts";
import { markerName } from "./marker.ts";

const probeFile = "probe";
const others = 0o077;
const everybody = 0o007;

/** Creates the folder, or checks that it is closed to other users, and returns its real path. */
export async function prepareFolder(folder: string, { create }: { readonly create: boolean }): Promise<string> {
  await refuseUnwritable(folder, resolve(folder));
  if (create) makeFolder(resolve(folder));
  const { mode, uid } = await stat(folder).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ENOENT" ? new StoreRefused(`there is no store in ${folder}`) : error;
  });
  // Kubernetes opens every folder of a volume to the pod's group (`fsGroup`) at each mount.
  if ((mode & everybody) === 0 && (mode & others) !== 0 && uid === process.getuid?.()) {
    await chmod(folder, 0o700);
    return realpath(folder);
  }
  if ((mode & others) !== 0) {
    throw new StoreRefused(
      `${folder} is accessible to other users (mode ${(mode & 0o777).toString(8)}); it must be 700`,
    );
  }
  return realpath(folder);
}

/**
 * Checks the folder, or the parent in which it would be created. Checked first, because each step of opening fails
 * differently on a read-only file system, and `mkdir` reports that the folder does not exist.
 */
async function refuseUnwritable(folder: string, existing: string): Promise<void> {
  try {
    await access(existing, constants.W_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && dirname(existing) !== existing) return refuseUnwritable(folder, dirname(existing));
    if (code === "EROFS") {
      throw new StoreRefused(`${folder} is on a read-only file system; mount it so that Latchkey can write to it`);
    }
    if (code === "EACCES" || code === "EPERM") {
      const account = `the account that Latchkey runs under (uid ${process.getuid?.()})`;
      throw new StoreRefused(`${folder} cannot be written to by ${account}; make it the owner of ${existing}`);
    }
    throw error;
  }
}

/** Makes files that others may read private to the owner. Returns their number. */
export async function closeFiles(folder: string): Promise<number> {
  const files = (await readdir(folder, { withFileTypes: true })).filter((file) => file.isFile());
  const closed = await Promise.all(files.map(({ name }) => closeFile(join(folder, name))));
  return closed.filter(Boolean).length;
}

async function closeFile(path: string): Promise<boolean> {
  try {
    const { mode } = await stat(path);
    if ((mode & others) === 0) return false;
    await chmod(path, 0o600);
    return true;
  } catch (error) {
    // A compaction deleted the file since it was listed.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Throws if the folder is not writable. */
export async function requireWritable(folder: string): Promise<void> {
  const path = join(folder, probeFile);
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile("x");
    await file.sync();
  } finally {
    await file.close();
  }
  await unlink(path);
}

/** Lists LevelDB's files in the folder. */
export async function levelFiles(
  folder: string,
): Promise<{ readonly hasCurrent: boolean; readonly hasRecords: boolean }> {
  const own = [markerName, `${markerName}.new`, lockFile, tailFile, probeFile];
  const names = (await readdir(folder)).filter((name) => !own.includes(name));
  const sizes = await Promise.all(
    names.filter((name) => /\.(ldb|sst|log)$/.test(name)).map(async (name) => (await stat(join(folder, name))).size),
  );
  return { hasCurrent: names.includes("CURRENT"), hasRecords: sizes.some((size) => size > 0) };
}
