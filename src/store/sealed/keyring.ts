import type { KeyObject } from "node:crypto";
import type { World } from "../../base/world.ts";
import { type Backend, type Change, type Condition, type StaleWrite, StoreRefused } from "../contract.ts";
import { createDataKeyWrapping, type DataKeyWrapping, isKeyringKey, keyForEpoch } from "./data-key-wrapping.ts";
import { authenticationEpoch, createHeldDataKeys, type HeldDataKeys, type HeldKey } from "./held-data-keys.ts";
import { type SealKey, SealKeyMissing } from "./seal-key.ts";

/**
 * The data keys of a store, unwrapped, in memory: one per epoch for encryption, and one without an epoch for
 * authentication.
 */
export interface Keyring {
  /** The key that encrypts new values. Throws `SealKeyMissing`. */
  current(): HeldKey;
  held(): readonly HeldKey[];
  secretOf(epoch: number): KeyObject;
  readonly authentication: KeyObject;
  /** Condition for a commit that encrypts: the commit is refused once its epoch was closed. */
  stillSeals(key: HeldKey): Condition;
  /** Reports whether a commit was refused for that reason. */
  isOurs(stale: StaleWrite): boolean;
  /** Reads changes by other replicas. */
  refresh(): Promise<void>;
  /** The seal key that this replica lacks for a data key in use; undefined if none. */
  readonly missing: SealKeyMissing | undefined;
  /** Starts an epoch under the first seal key. */
  begin(): Promise<HeldKey>;
  /** Returns the change that rewraps or closes a key. */
  change(key: HeldKey, next: { readonly closed?: true; readonly rewrap?: true }): Promise<Change>;
  removal(key: HeldKey): Change;
  /** The configured seal keys, in order. */
  readonly sealKeyIds: readonly string[];
  /** The store was created before values were authenticated. */
  readonly isOfFirstFormat: boolean;
}

interface KeyringOptions {
  readonly backend: Backend;
  /** The first one wraps new data keys; all of them unwrap. */
  readonly keys: readonly SealKey[];
  readonly world: World;
}

export async function openKeyring({ backend, keys, world }: KeyringOptions): Promise<Keyring> {
  const [first] = keys;
  if (first === undefined) throw new SealKeyMissing("no encryption key is configured");
  const wrapping = createDataKeyWrapping(keys);
  const held = createHeldDataKeys({ backend, wrapping });
  const begin = () => beginEpoch({ held, wrapping, by: first, nowMs: world.now() });
  await held.refresh();
  if (held.all().length === 0) await createFirstKeys({ backend, held, wrapping, by: first, nowMs: world.now() });
  requireUsable(held, wrapping);
  if (held.of(authenticationEpoch) === undefined) {
    await held.commit([await wrapping.make(authenticationEpoch, first, world.now())]);
  }
  if (held.epochs().at(-1)?.stored.sealKeyId !== first.id) await begin();

  return {
    current() {
      const open = held.epochs().filter(({ stored }) => !stored.closed);
      const usable = open.findLast(({ secret }) => secret !== undefined);
      const last = open.at(-1);
      if (usable !== undefined) return usable;
      throw last === undefined ? new Error("no data key encrypts") : (last.problem ?? wrapping.missing(last.stored));
    },
    held: held.all,
    secretOf(epoch) {
      const key = held.of(epoch);
      if (key === undefined) throw new SealKeyMissing("a value is encrypted with an unknown data key");
      if (key.secret === undefined) throw key.problem ?? wrapping.missing(key.stored);
      return key.secret;
    },
    get authentication() {
      const secret = held.of(authenticationEpoch)?.secret;
      if (secret === undefined) throw new SealKeyMissing("the key that authenticates the store is not known");
      return secret;
    },
    stillSeals: ({ stored, revision }) => ({ key: keyForEpoch(stored.epoch), expect: revision }),
    isOurs: ({ key }) => isKeyringKey(key),
    refresh: held.refresh,
    get missing() {
      return held.all().find(({ problem }) => problem !== undefined)?.problem;
    },
    begin,
    async change({ stored, revision, secret }, { closed, rewrap }) {
      const { epoch } = stored;
      const createdMs = Number(stored.createdAt?.seconds ?? 0n) * 1_000;
      const by = rewrap ? first : wrapping.sealKeyOf(stored);
      if (secret === undefined || by === undefined) throw wrapping.missing(stored);
      const key = { epoch, secret: secret.export(), createdMs, expect: revision, closed: closed ?? stored.closed };
      return wrapping.wrap(key, by);
    },
    removal: ({ stored, revision }) => ({ key: keyForEpoch(stored.epoch), value: undefined, expect: revision }),
    sealKeyIds: keys.map(({ id }) => id),
    get isOfFirstFormat() {
      return wrapping.isOfFirstFormat;
    },
  };
}

interface NewKeyOptions {
  readonly held: HeldDataKeys;
  readonly wrapping: DataKeyWrapping;
  readonly by: SealKey;
  readonly nowMs: number;
}

async function beginEpoch({ held, wrapping, by, nowMs }: NewKeyOptions): Promise<HeldKey> {
  const newest = held.epochs().at(-1)?.stored.epoch ?? 0;
  await held.commit([await wrapping.make(newest + 1, by, nowMs)]);
  const begun = held.epochs().at(-1);
  if (begun === undefined) throw new Error("the data key of a new epoch is missing");
  return begun;
}

/** Creates the data keys of a new store. Throws `StoreRefused` if the store is not empty and has none. */
async function createFirstKeys(options: NewKeyOptions & { readonly backend: Backend }): Promise<void> {
  const { backend, held, wrapping, by, nowMs } = options;
  const [other] = await backend.list({ from: "\x01", to: "\u{10ffff}", limit: 1 });
  if (other === undefined) {
    await held.commit([await wrapping.make(authenticationEpoch, by, nowMs), await wrapping.make(1, by, nowMs)]);
  } else {
    // Another replica may have started in between: its data keys are written before anything else.
    await held.refresh();
  }
  if (held.all().length === 0) throw new StoreRefused("the store's data keys are gone; restore the last backup");
}

/** Throws unless all data keys can be unwrapped; only a store of the first format may lack the authentication key. */
function requireUsable(held: HeldDataKeys, wrapping: DataKeyWrapping): void {
  const unavailable = held.all().find(({ secret }) => secret === undefined);
  if (unavailable !== undefined) throw unavailable.problem ?? wrapping.missing(unavailable.stored);
  if (held.of(authenticationEpoch) === undefined && !wrapping.isOfFirstFormat) {
    throw new StoreRefused("the key that authenticates the store is gone; restore the last backup");
  }
}
