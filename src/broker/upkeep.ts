import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type BackupPiece, writeBackup } from "../store/backup/backup.ts";
import { type Backend, type Entry, type Space, StoreDamaged, type StoreStatus } from "../store/contract.ts";
import { countSealed, type ResealProgress, reseal } from "../store/sealed/rewrite.ts";
import { SealKeyMissing } from "../store/sealed/seal-key.ts";
import type { SealedStore } from "../store/sealed/sealed.ts";

/** Maintains the store as a whole. Long operations stop when their signal aborts and when their reader leaves. */
export interface Upkeep {
  /** Returns the status, without the space when the backend cannot be asked now. */
  status(): Promise<StoreStatus & Partial<Space>>;
  /** Yields a consistent snapshot of everything: chunks, then the manifest. */
  backup(asked: UpkeepRequest & { readonly actor: string }): AsyncGenerator<BackupPiece>;
  /** Reads and checks everything; the last step has `isDone`. */
  scrub(asked: UpkeepRequest): AsyncGenerator<ScrubProgress>;
  /** Re-encrypts everything. Only one re-seal runs at a time; an unfinished one is continued by the next. */
  reseal(asked: UpkeepRequest): AsyncGenerator<ResealProgress>;
  /** Returns the seal keys, configured ones first, and whether the store still needs each. */
  sealKeys(asked: UpkeepRequest & { readonly countValues: boolean }): Promise<readonly SealKeyUse[]>;
}

interface UpkeepRequest {
  /** Aborts when the caller has left. */
  readonly signal: AbortSignal;
}

export interface ScrubProgress {
  readonly checked: number;
  readonly damaged: number;
  /** Some of the damaged entries, described for people. */
  readonly examples: readonly string[];
  readonly isDone: boolean;
}

export interface SealKeyUse {
  readonly id: string;
  readonly isConfigured: boolean;
  /** The number of data keys that this seal key wraps. */
  readonly dataKeys: number;
  /** The number of values encrypted with those data keys; undefined unless requested. */
  readonly sealedValues: number | undefined;
  readonly isNeeded: boolean;
}

interface UpkeepOptions {
  readonly store: SealedStore;
  readonly backend: Backend;
  readonly world: World;
}

/** Limits the examples to what a person reads. */
const maxExamples = 20;

export function createUpkeep({ store, backend, world }: UpkeepOptions): Upkeep {
  const { keyring, frames } = store;
  const { log, metrics } = world;
  let isResealing = false;

  /**
   * Checks that an entry decrypts. A write or a re-seal may have replaced the entry since, so a failure is read once
   * more.
   */
  async function opens(entry: Entry): Promise<boolean> {
    try {
      frames.open(entry);
      return true;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
    try {
      await store.get(entry.key);
      return true;
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      return false;
    }
  }

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
      log.info("a backup is being taken", { actor, revision: snapshot.revision });
      try {
        for await (const piece of writeBackup(snapshot, { storeId, format, createdMs: world.now() })) {
          if (signal.aborted) return;
          yield piece;
        }
      } catch (error) {
        throw error instanceof StoreDamaged ? damaged(error) : error;
      } finally {
        await snapshot.close();
      }
    },
    async *scrub({ signal }) {
      let checked = 0;
      let count = 0;
      const examples: string[] = [];
      const note = (what: string) => {
        count += 1;
        if (examples.length < maxExamples) examples.push(what);
        // Set at once: an alert may depend on the metric, and the caller may leave before the end.
        metrics.storeDamaged.set(count);
      };
      for await (const step of backend.scrub()) {
        for (const what of step.damaged) note(what);
        for (const entry of step.entries) if (!(await opens(entry))) note(`the value of ${JSON.stringify(entry.key)}`);
        checked += step.entries.length;
        if (signal.aborted) return;
        yield { checked, damaged: count, examples: [...examples], isDone: false };
      }
      metrics.storeDamaged.set(count);
      if (count > 0) log.error("the store is damaged", { checked, damaged: count });
      else log.info("the store was read, and is sound", { checked });
      yield { checked, damaged: count, examples, isDone: true };
    },
    async *reseal({ signal }) {
      if (isResealing) throw new Fault("in_use", "everything is being sealed anew already; let that come to its end");
      isResealing = true;
      try {
        for await (const progress of reseal({ backend, keyring, frames, signal })) {
          if (signal.aborted) return;
          yield progress;
        }
        log.info("everything was sealed anew");
      } catch (error) {
        throw error instanceof StoreDamaged ? damaged(error) : error;
      } finally {
        isResealing = false;
      }
    },
    async sealKeys({ countValues, signal }) {
      await keyring.refresh();
      const counts = countValues ? await countSealed({ backend, frames, signal }) : undefined;
      const { sealKeyIds: configured } = keyring;
      const dataKeys = keyring.held().map(({ stored }) => stored);
      const ids = new Set([...configured, ...dataKeys.map(({ sealKeyId }) => sealKeyId)]);
      return [...ids].map((id) => {
        const wrapped = dataKeys.filter(({ sealKeyId }) => sealKeyId === id);
        return {
          id,
          isConfigured: configured.includes(id),
          dataKeys: wrapped.length,
          sealedValues: counts && wrapped.reduce((sum, { epoch }) => sum + (counts.get(epoch) ?? 0), 0),
          isNeeded: id === configured[0] || wrapped.length > 0,
        };
      });
    },
  };
}

const damaged = (cause: Error): Fault =>
  new Fault("internal", "the store is damaged: `latchkey store scrub` says where", { cause });

const isUnreadable = (error: unknown): boolean => error instanceof StoreDamaged || error instanceof SealKeyMissing;
