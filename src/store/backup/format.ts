import { createHash } from "node:crypto";

/*
 * A backup is a byte stream that proves its own integrity:
 *
 *   a line with its name and format
 *   every entry as a BackupEntry, preceded by its length, in key order
 *   a length of 0
 *   the BackupManifest, preceded by its length: the number of entries and their SHA-256
 *   the SHA-256 of the manifest
 *
 * Every bit is covered by a check. Encrypted values stay encrypted, so a backup is as secret as the store.
 */

export const firstLine = Buffer.from("latchkey backup 1\n");
/** Part of the first line that all formats share. */
export const firstWords = firstLine.subarray(0, -2);
export const hashBytes = 32;
/** Larger than anything that any API can write; a larger length is treated as damage. */
export const maxPartBytes = 64 * 1024 * 1024;

export const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

/** The input is not a backup, or differs from what was written. */
export class BackupDamaged extends Error {
  override readonly name = "BackupDamaged";
}

/** Returns the error for a backup that is not intact; `problem` completes the sentence. */
export const damaged = (problem: string): BackupDamaged => new BackupDamaged(`the backup is damaged: ${problem}`);
