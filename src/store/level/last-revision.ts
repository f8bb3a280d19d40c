import { closeSync, constants, fdatasync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";

/**
 * A file with the latest revision that the store has certainly reached: written after each durable write and before its
 * acknowledgement. It is not synced each time, so after a power loss it may be behind, but never ahead. A store that
 * opens at an older revision has lost its latest commits.
 */
export interface LastRevision {
  /** The revision in the file when it was opened; 0 for a new file. */
  readonly found: number;
  reached(revision: number): void;
  /** Runs in a thread: a busy disk must not block the event loop. */
  sync(): Promise<void>;
  /** Waits for a running sync first. */
  close(): void;
}

const syncFile = promisify(fdatasync);

export const tailFile = "tail";
/** Two slots, written alternately: one is always intact. */
const slots = 2;
const slotBytes = 16;

export function openLastRevision(folder: string): LastRevision {
  const fd = openSync(join(folder, tailFile), constants.O_RDWR | constants.O_CREAT, 0o600);
  const bytes = Buffer.alloc(slots * slotBytes);
  readSync(fd, bytes, 0, bytes.length, 0);
  const revisions = Array.from({ length: slots }, (_, i) =>
    readSlot(bytes.subarray(i * slotBytes, (i + 1) * slotBytes)),
  );
  const found = Math.max(...revisions);
  let slot = revisions.indexOf(found);
  let isDirty = false;
  let syncing: Promise<void> = Promise.resolve();

  async function syncOnce(): Promise<void> {
    if (!isDirty) return;
    isDirty = false;
    try {
      await syncFile(fd);
    } catch (error) {
      isDirty = true;
      throw error;
    }
  }

  return {
    found,
    reached(revision) {
      slot = (slot + 1) % slots;
      const written = Buffer.alloc(slotBytes);
      written.writeUIntBE(revision, 0, 6);
      written.writeUInt32BE(crc32(written.subarray(0, 8)), 8);
      writeSync(fd, written, 0, slotBytes, slot * slotBytes);
      isDirty = true;
    },
    sync() {
      // Syncs run one after another, even after a failure.
      syncing = syncing.then(syncOnce, syncOnce);
      return syncing;
    },
    close: () => closeSync(fd),
  };
}

/** Returns 0 for a slot that is damaged or was never written. */
function readSlot(bytes: Buffer): number {
  return bytes.readUInt32BE(8) === crc32(bytes.subarray(0, 8)) ? bytes.readUIntBE(0, 6) : 0;
}
