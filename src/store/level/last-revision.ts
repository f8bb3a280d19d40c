import { closeSync, constants, fdatasync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";

/**
 * A revision that the store has reached for certain, in a file of its own: written after each durable write and
 * before its acknowledgement. It is not synced each time, so that after a power loss it may be behind, and never
 * ahead. A store that opens at an older revision has lost its end.
 */
export interface LastRevision {
  /** What it said when it was opened; 0 for a new one. */
  readonly found: number;
  reached(revision: number): void;
  /** In a thread: a busy disk takes its time, and the event loop waits for none. */
  sync(): Promise<void>;
  /** Not before what is being synced is. */
  close(): void;
}

const syncFile = promisify(fdatasync);

export const tailFile = "tail";
/** Two, written in turn: one of them is whole whatever happens to the other. */
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
      // One after another, whatever came of the one before.
      syncing = syncing.then(syncOnce, syncOnce);
      return syncing;
    },
    close: () => closeSync(fd),
  };
}

/** 0 for one that was never written, or is damaged. */
function readSlot(bytes: Buffer): number {
  return bytes.readUInt32BE(8) === crc32(bytes.subarray(0, 8)) ? bytes.readUIntBE(0, 6) : 0;
}
