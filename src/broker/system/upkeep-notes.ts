import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import {
  type BackupNote,
  BackupNoteSchema,
  type ScrubNote,
  ScrubNoteSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { keyOf } from "../../store/keys.ts";

/** Remembers in the store when it was last backed up and scrubbed, so that every replica can tell. */
export interface UpkeepNotes {
  read(): Promise<{ readonly backup: BackupNote | undefined; readonly scrub: ScrubNote | undefined }>;
  noteBackup(note: Omit<BackupNote, "$typeName">): Promise<void>;
  noteScrub(note: Omit<ScrubNote, "$typeName">): Promise<void>;
}

const backupKey = keyOf("upkeep", "backup");
const scrubKey = keyOf("upkeep", "scrub");

export function createUpkeepNotes({ store, world }: { readonly store: Store; readonly world: World }): UpkeepNotes {
  async function write(key: string, value: Uint8Array): Promise<void> {
    try {
      await store.commit([{ key, value }]);
    } catch (err) {
      // The backup or scrub is complete all the same. A store that is damaged may accept no writes.
      world.log.warn("the time of the backup or scrub was not stored", { err });
    }
  }

  return {
    async read() {
      const [backup, scrub] = await store.getMany([backupKey, scrubKey]);
      return {
        backup: backup && fromBinary(BackupNoteSchema, backup.value),
        scrub: scrub && fromBinary(ScrubNoteSchema, scrub.value),
      };
    },
    noteBackup: (note) => write(backupKey, toBinary(BackupNoteSchema, create(BackupNoteSchema, note))),
    noteScrub: (note) => write(scrubKey, toBinary(ScrubNoteSchema, create(ScrubNoteSchema, note))),
  };
}
