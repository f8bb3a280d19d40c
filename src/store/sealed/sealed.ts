import type { World } from "../../base/world.ts";
import {
  type Backend,
  type Change,
  type Commit,
  type Condition,
  type Entry,
  StaleWrite,
  type Store,
} from "../contract.ts";
import { createSharedReads } from "../postgres/shared-reads.ts";
import { isKeyringKey } from "./data-key-wrapping.ts";
import { type Keyring, openKeyring } from "./keyring.ts";
import { followKeyring } from "./keyring-watch.ts";
import { authenticateAll } from "./rewrite.ts";
import { type SealKey, SealKeyMissing } from "./seal-key.ts";
import { createValueEnvelope, type ValueEnvelope } from "./value-envelope.ts";

/**
 * A store in which, without the keys, no secret can be read and no value can be changed, moved or swapped. Secret
 * values are encrypted with the data key of the current epoch; all others carry an authentication code. Both are bound
 * to their key in the store.
 */
export interface SealedStore extends Store {
  readonly keyring: Keyring;
  readonly frames: ValueEnvelope;
  /** Leaves the backend open. */
  close(): void;
}

interface SealedOptions {
  readonly backend: Backend;
  readonly keys: readonly SealKey[];
  readonly world: World;
}

/**
 * AES-GCM with random nonces is safe for 2^32 encryptions per key; an epoch ends long before. Encryptions by other
 * processes are not counted: sixteen processes together stay within the limit.
 */
const maxSealsOfEpoch = 2 ** 28;

export async function openSealedStore({ backend, keys, world }: SealedOptions): Promise<SealedStore> {
  const keyring = await openKeyring({ backend, keys, world });
  const frames = createValueEnvelope({ keyring, metrics: world.metrics });
  let sealsBefore = 0;

  const opened = ({ key, value, revision }: Entry): Entry => ({
    key,
    value: frames.open({ key, value, revision }),
    revision,
  });

  /** Synchronous: a promise for each of thousands of entries costs more than decrypting them. */
  async function allOpened<T extends Entry | undefined>(entries: readonly T[]): Promise<(T | Entry)[]> {
    const open = () => entries.map((entry) => (entry === undefined ? entry : opened(entry)));
    try {
      return open();
    } catch (error) {
      if (!(error instanceof SealKeyMissing)) throw error;
      // Another replica may have started an epoch in the meantime.
      await keyring.refresh();
      return open();
    }
  }

  const getMany = createSharedReads(async (keys) => allOpened(await backend.getMany(keys)));

  function closed(changes: readonly Change[]): readonly ClosedChange[] {
    return changes.map((change) => {
      const { key, value, secret, expect } = change;
      if (value === undefined || isKeyringKey(key)) return change;
      if (secret === true) {
        const sealed = { key, value: frames.close({ key, value, secret }), secret };
        return expect === undefined ? sealed : { ...sealed, expect };
      }
      const ours = { key, value: frames.close({ key, value }), isOurs: true as const };
      return expect === undefined ? ours : { ...ours, expect };
    });
  }

  const commit: Store["commit"] = (changes, conditions = [], timing = {}) => {
    const seals = changes.some(({ secret }) => secret === true);
    return seals ? commitSealed(changes, conditions) : backend.commit(closed(changes), conditions, timing);
  };

  async function commitSealed(changes: readonly Change[], conditions: readonly Condition[]): Promise<number> {
    if (frames.sealsMade() - sealsBefore > maxSealsOfEpoch) {
      sealsBefore = frames.sealsMade();
      await keyring.begin();
    }
    for (;;) {
      const current = keyring.current();
      try {
        return await backend.commit(closed(changes), [...conditions, keyring.stillSeals(current)]);
      } catch (error) {
        if (!(error instanceof StaleWrite && keyring.isOurs(error))) throw error;
        // A re-seal closed the epoch: retry with the next one.
        await keyring.refresh();
      }
    }
  }

  /** Decrypts on first use, and once for all watchers, which receive a commit one after another. */
  let told: { readonly commit: Commit; readonly shown: Commit } | undefined;
  function shown(commit: Commit): Commit {
    if (told?.commit === commit) return told.shown;
    const { revision, changes } = commit;
    const made = { revision, changes: changes.map((change) => new ShownChange(frames, change, revision)) };
    told = { commit, shown: made };
    return made;
  }

  const ownWatch = await followKeyring({ backend, keyring, world });
  if (keyring.isOfFirstFormat) await authenticateAll({ backend, keyring, frames, log: world.log });

  return {
    keyring,
    frames,
    async get(key) {
      const [entry] = await getMany([key]);
      return entry;
    },
    getMany,
    async list(range) {
      return allOpened(await backend.list(range));
    },
    commit,
    watch: (from, { onCommit, ...watcher }) =>
      backend.watch(from, { ...watcher, onCommit: (committed) => onCommit(shown(committed)) }),
    caughtUp: () => backend.caughtUp(),
    clock: () => backend.clock(),
    status() {
      const status = backend.status();
      const { missing } = keyring;
      return missing === undefined ? status : { ...status, reason: status.reason ?? missing.message };
    },
    sessions: backend.sessions,
    close: () => ownWatch.close(),
  };
}

/** A change as given to the backend. Our own changes are not verified again when watchers receive them. */
interface ClosedChange extends Change {
  readonly isOurs?: true;
}

/** A change of a commit as watchers see it, decrypted on first use. A class, because there are many. */
class ShownChange implements Pick<Change, "key" | "value"> {
  readonly key: string;
  readonly #frames: ValueEnvelope;
  readonly #closed: Pick<Change, "key" | "value">;
  readonly #revision: number;
  #opened: Uint8Array | undefined;

  constructor(frames: ValueEnvelope, closed: Pick<Change, "key" | "value">, revision: number) {
    this.key = closed.key;
    this.#frames = frames;
    this.#closed = closed;
    this.#revision = revision;
  }

  get value(): Uint8Array | undefined {
    const { key, value } = this.#closed;
    if (value === undefined || this.#opened !== undefined) return this.#opened;
    if ("isOurs" in this.#closed) return this.#frames.bare(value);
    const bytes = this.#frames.open({ key, value, revision: this.#revision });
    // Secrets are not cached.
    if (this.#frames.epochOf(value) === undefined) this.#opened = bytes;
    return bytes;
  }
}
