import { createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import { type DataKey, DataKeySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Backend, type Change, type Condition, type Entry, StaleWrite, StoreRefused } from "../contract.ts";
import { keyOf, under } from "../keys.ts";
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

/** A stored data key, with its secret if it can be unwrapped. */
export interface HeldKey {
  readonly stored: DataKey;
  readonly revision: number;
  readonly secret: KeyObject | undefined;
  /** Why the key cannot be unwrapped. */
  readonly problem?: SealKeyMissing;
}

interface KeyringOptions {
  readonly backend: Backend;
  /** The first one wraps new data keys; all of them unwrap. */
  readonly keys: readonly SealKey[];
  readonly world: World;
}

const space = "seal";
const ownPrefix = `${space}\0`;
const besidePrefix = `${space}-`;
const authenticationEpoch = 0;
export const isKeyringKey = (key: string): boolean => key.startsWith(ownPrefix) || key.startsWith(besidePrefix);
/** Returns the data key in an entry; undefined for any other entry. */
export const dataKeyIn = ({ key, value }: Pick<Entry, "key" | "value">): DataKey | undefined =>
  key.startsWith(`${space}\0`) ? fromBinary(DataKeySchema, value) : undefined;
// Zero-padded, so that epochs sort numerically.
const keyFor = (epoch: number): string => keyOf(space, String(epoch).padStart(10, "0"));
/** Associated data of a wrapped key. Keys from before values were authenticated lack the version part. */
const aboutKey = (epoch: number, sealKeyId: string) => Buffer.from(`latchkey data key\0${epoch}\0${sealKeyId}\0v2`);
const aboutFirstKey = (epoch: number, sealKeyId: string) => Buffer.from(`latchkey data key\0${epoch}\0${sealKeyId}`);

export async function openKeyring({ backend, keys, world }: KeyringOptions): Promise<Keyring> {
  const [first] = keys;
  if (first === undefined) throw new SealKeyMissing("no seal key is configured");
  const all = new Map<number, HeldKey>();
  let isOfFirstFormat = false;

  async function refresh(): Promise<void> {
    const found = await backend.list({ ...under(space), limit: 100_000 });
    const read = await Promise.all(
      found.map(async ({ value, revision }): Promise<HeldKey> => {
        const stored = fromBinary(DataKeySchema, value);
        return { stored, revision, ...(await opened(stored)) };
      }),
    );
    all.clear();
    for (const one of read) all.set(one.stored.epoch, one);
  }

  /**
   * Reuses an unwrapped secret only if the wrapped key is the same: a store restored to an older state may give the
   * same epoch to another key.
   */
  async function opened(stored: DataKey): Promise<Pick<HeldKey, "secret" | "problem">> {
    const known = all.get(stored.epoch);
    if (known?.secret !== undefined && Buffer.compare(known.stored.wrapped, stored.wrapped) === 0) {
      return { secret: known.secret };
    }
    try {
      const secret = await unwrap(stored);
      if (secret !== undefined) return { secret };
    } catch (error) {
      if (!(error instanceof SealKeyMissing)) throw error;
      return { secret: undefined, problem: error };
    }
    // The authentication key is created once, and stays the same under any wrapping.
    const isSame = stored.epoch === authenticationEpoch && known?.secret !== undefined;
    return isSame ? { secret: known.secret } : { secret: undefined, problem: missing(stored) };
  }

  /** Returns undefined if its seal key is not configured. */
  async function unwrap({ epoch, sealKeyId, wrapped }: DataKey): Promise<KeyObject | undefined> {
    const sealKey = keys.find(({ id }) => id === sealKeyId);
    if (sealKey === undefined) return undefined;
    try {
      return createSecretKey(await sealKey.unwrap(wrapped, aboutKey(epoch, sealKeyId)));
    } catch (cause) {
      const secret = await sealKey.unwrap(wrapped, aboutFirstKey(epoch, sealKeyId)).catch(() => {
        const message = `the seal key "${sealKeyId}" is not the one that the store was sealed with (configured: ${configured()})`;
        throw new SealKeyMissing(message, { cause });
      });
      isOfFirstFormat = true;
      return createSecretKey(secret);
    }
  }

  const configured = () => keys.map(({ id }) => `"${id}"`).join(", ");
  const missing = ({ sealKeyId }: DataKey) =>
    new SealKeyMissing(
      `the store is sealed with the seal key "${sealKeyId}", which is not configured (configured: ${configured()})`,
    );

  async function make(epoch: number, by: SealKey): Promise<Change> {
    return put(epoch, by, { secret: randomBytes(32), createdMs: world.now(), expect: 0 });
  }

  interface Put {
    readonly secret: Uint8Array;
    readonly createdMs: number;
    readonly expect: number;
    readonly closed?: boolean;
  }

  async function put(epoch: number, by: SealKey, { secret, createdMs, expect, closed = false }: Put): Promise<Change> {
    const wrapped = await by.wrap(secret, aboutKey(epoch, by.id));
    const createdAt = timestampFromMs(createdMs);
    const stored = create(DataKeySchema, { epoch, sealKeyId: by.id, wrapped, createdAt, closed });
    return { key: keyFor(epoch), value: toBinary(DataKeySchema, stored), expect };
  }

  /** A concurrent replica doing the same is just as good. */
  async function commitOrRefresh(changes: readonly Change[]): Promise<void> {
    try {
      await backend.commit(changes);
    } catch (error) {
      if (!(error instanceof StaleWrite)) throw error;
    }
    await refresh();
  }

  const epochs = () => [...all.values()].filter(({ stored }) => stored.epoch !== authenticationEpoch);
  const newest = () => epochs().at(-1);

  async function begin(by: SealKey): Promise<HeldKey> {
    await commitOrRefresh([await make((newest()?.stored.epoch ?? 0) + 1, by)]);
    const begun = newest();
    if (begun === undefined) throw new Error("an epoch was begun and is not there");
    return begun;
  }

  await refresh();
  if (all.size === 0) {
    const [other] = await backend.list({ from: "\x01", to: "\u{10ffff}", limit: 1 });
    if (other === undefined) await commitOrRefresh([await make(authenticationEpoch, first), await make(1, first)]);
    // Another replica may have started in between: its data keys are written before anything else.
    else await refresh();
    if (all.size === 0) throw new StoreRefused("the store's data keys are gone; restore the last backup");
  }
  const unavailable = [...all.values()].find(({ secret }) => secret === undefined);
  if (unavailable !== undefined) throw unavailable.problem ?? missing(unavailable.stored);
  if (!all.has(authenticationEpoch)) {
    if (!isOfFirstFormat)
      throw new StoreRefused("the key that authenticates the store is gone; restore the last backup");
    await commitOrRefresh([await make(authenticationEpoch, first)]);
  }
  if (newest()?.stored.sealKeyId !== first.id) await begin(first);

  return {
    current() {
      const open = epochs().filter(({ stored }) => !stored.closed);
      const usable = open.findLast(({ secret }) => secret !== undefined);
      const last = open.at(-1);
      if (usable !== undefined) return usable;
      throw last === undefined ? new Error("no data key seals") : (last.problem ?? missing(last.stored));
    },
    held: () => [...all.values()],
    secretOf(epoch) {
      const held = all.get(epoch);
      if (held === undefined) throw new SealKeyMissing("a value is sealed with a data key that is not known");
      if (held.secret === undefined) throw held.problem ?? missing(held.stored);
      return held.secret;
    },
    get authentication() {
      const secret = all.get(authenticationEpoch)?.secret;
      if (secret === undefined) throw new SealKeyMissing("the key that authenticates the store is not known");
      return secret;
    },
    stillSeals: ({ stored, revision }) => ({ key: keyFor(stored.epoch), expect: revision }),
    isOurs: ({ key }) => isKeyringKey(key),
    refresh,
    get missing() {
      return [...all.values()].find(({ problem }) => problem !== undefined)?.problem;
    },
    begin: () => begin(first),
    async change({ stored, revision, secret }, { closed, rewrap }) {
      const createdMs = Number(stored.createdAt?.seconds ?? 0n) * 1_000;
      const by = rewrap ? first : keys.find(({ id }) => id === stored.sealKeyId);
      if (secret === undefined || by === undefined) throw missing(stored);
      return put(stored.epoch, by, {
        secret: secret.export(),
        createdMs,
        expect: revision,
        closed: closed ?? stored.closed,
      });
    },
    removal: ({ stored, revision }) => ({ key: keyFor(stored.epoch), value: undefined, expect: revision }),
    sealKeyIds: keys.map(({ id }) => id),
    get isOfFirstFormat() {
      return isOfFirstFormat;
    },
  };
}
