import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type BackupPiece, writeBackup } from "../../store/backup/backup.ts";
import { type Backend, type Space, StoreDamaged, type StoreStatus } from "../../store/contract.ts";
import { type ResealProgress, reseal } from "../../store/sealed/rewrite.ts";
import type { SealedStore } from "../../store/sealed/sealed.ts";
import { createScrubStore, type ScrubProgress } from "./scrub.ts";
import { listSealKeys, type SealKeyUse } from "./seal-keys.ts";
import { createUpkeepNotes, type UpkeepNotes } from "./upkeep-notes.ts";

/** Maintains the store as a whole. Long operations stop when their signal aborts and when their reader leaves. */
export interface Upkeep {
  /** Returns the status, without the space when the backend cannot be asked now. */
  status(): Promise<StoreStatus & Partial<Space>>;
  /** Yields a consistent snapshot of everything: chunks, then the manifest. */
  backup(request: UpkeepRequest & { readonly actor: string }): AsyncGenerator<BackupPiece>;
  /** Reads and checks everything; the last step has `isDone`. */
  scrub(request: UpkeepRequest & { readonly actor: string }): AsyncGenerator<ScrubProgress>;
  /** Re-encrypts everything. Only one re-seal runs at a time; an unfinished one is continued by the next. */
  reseal(request: UpkeepRequest): AsyncGenerator<ResealProgress>;
  /** Returns the seal keys, configured ones first, and whether the store still needs each. */
  sealKeys(request: UpkeepRequest & { readonly countValues: boolean }): Promise<readonly SealKeyUse[]>;
  /** Returns the last complete backup and scrub. */
  last(): ReturnType<UpkeepNotes["read"]>;
}

interface UpkeepRequest {
  /** Aborts when the caller has left. */
  readonly signal: AbortSignal;
}

interface UpkeepOptions {
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly world: World;
}

export function createUpkeep({ store, backend, world }: UpkeepOptions): Upkeep {
  const { keyring, frames } = store;
  const { log } = world;
  const scrub = createScrubStore({ store, backend, world });
  const notes = createUpkeepNotes({ store, world });
  let isResealing = false;

  /** Checks the files themselves: a damaged file may lack keys, which reading its entries does not show. */
  async function requireSoundFiles(): Promise<void> {
    for await (const { damaged: found, entries } of backend.scrub()) {
      if (found.length > 0) throw damaged(new Error(found.join(", ")));
      if (entries.length > 0) return;
    }
  }

  return {
    async status() {
      const status = store.status();
      try {
        return { ...status, ...(await backend.space()) };
      } catch {
        /* The store is unavailable, which its own status says. */
        return status;
      }
    },
    async *backup({ signal, actor }) {
      const { storeId, format } = backend.status();
      await requireSoundFiles();
      const snapshot = await backend.snapshot();
      const { revision } = snapshot;
      log.info("backup started", { actor, revision });
      const at = timestampFromMs(world.now());
      let bytes = 0;
      try {
        for await (const piece of writeBackup(snapshot, { storeId, format, createdMs: timestampMs(at) })) {
          if (signal.aborted) return;
          yield piece;
          if (piece.case === "chunk") bytes += piece.value.length;
        }
        await notes.noteBackup({ at, actor, revision: BigInt(revision), bytes: BigInt(bytes) });
      } catch (error) {
        throw error instanceof StoreDamaged ? damaged(error) : error;
      } finally {
        await snapshot.close();
      }
    },
    async *scrub({ signal, actor }) {
      for await (const step of scrub(signal)) {
        yield step;
        if (!step.isDone) continue;
        const [checked, damaged, examples] = [BigInt(step.checked), BigInt(step.damaged), [...step.examples]];
        await notes.noteScrub({ at: timestampFromMs(world.now()), actor, checked, damaged, examples });
      }
    },
    async *reseal({ signal }) {
      if (isResealing) throw new Fault("in_use", "another reseal is running; wait until it ends");
      isResealing = true;
      try {
        for await (const progress of reseal({ backend, keyring, frames, signal })) {
          if (signal.aborted) return;
          yield progress;
        }
        log.info("re-encrypted the store");
      } catch (error) {
        throw error instanceof StoreDamaged ? damaged(error) : error;
      } finally {
        isResealing = false;
      }
    },
    sealKeys: (request) => listSealKeys({ store, backend, ...request }),
    last: () => notes.read(),
  };
}

const damaged = (cause: Error): Fault =>
  new Fault("internal", "the store is damaged; run `latchkey store scrub` for details", { cause });
