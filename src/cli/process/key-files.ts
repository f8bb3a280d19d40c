import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { newSecretKey } from "../../base/ids.ts";
import { StoreRefused } from "../../store/contract.ts";
import { makeFolder } from "../../store/make-folder.ts";

/** A key that Latchkey generated, in a file of mode 0600 beside the store. */
export interface KeyFile {
  readonly path: string;
  readonly value: string;
  readonly isNew: boolean;
}

export const secretKeyFile = (folder: string): KeyFile => keyFile(join(folder, "secret-key"), newSecretKey);
export const adminKeyFile = (folder: string): KeyFile => keyFile(join(folder, "admin-key"), newSecretKey);
/** In the format of LATCHKEY_SEAL_KEYS. */
export const sealKeyFile = (folder: string): KeyFile =>
  keyFile(join(folder, "seal-keys"), () => `dev:${randomBytes(32).toString("base64")}`);

function keyFile(path: string, make: () => string): KeyFile {
  try {
    const value = readKey(path);
    if (value !== undefined) return { path, value, isNew: false };
    const made = make();
    makeFolder(dirname(path));
    writeFileSync(path, `${made}\n`, { mode: 0o600, flag: "wx" });
    return { path, value: made, isNew: true };
  } catch (error) {
    throw new StoreRefused(`the key file ${path} cannot be used: ${(error as Error).message}`);
  }
}

function readKey(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
