import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newSecretKey } from "../../base/ids.ts";

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
    return { path, value: readFileSync(path, "utf8").trim(), isNew: false };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    const value = make();
    mkdirSync(join(path, ".."), { recursive: true, mode: 0o700 });
    writeFileSync(path, `${value}\n`, { mode: 0o600, flag: "wx" });
    return { path, value, isNew: true };
  }
}
