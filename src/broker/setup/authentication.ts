import type { Socket } from "node:net";
import { create, fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createCallbacks } from "../../base/callbacks.ts";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { DeclaredKey } from "../../core/declared.ts";
import { KeyDigestSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Entry, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import { type LastUsedTimes, touchedBy, type UsedThing } from "../stored/last-used.ts";
import { type Caller, callerOfKey } from "./caller.ts";
import { keyTouchKey, type SetupCollections } from "./setup-collections.ts";

export interface Authentication {
  /**
   * Returns the caller that a secret belongs to, without a promise if the key is in memory. Otherwise throws, or
   * rejects with, the fault that the listener answers with.
   */
  authenticate(secret: string): Caller | Promise<Caller>;
  /**
   * Returns the caller that a connection itself proves, for a request without a secret. Undefined: it proves none.
   * Throws, or rejects with, the fault that the listener answers with. Keys alone prove nothing this way.
   */
  callerOfPeer(socket: Socket): Caller | Promise<Caller> | undefined;
  /** Returns the caller whose secret has this hash; undefined if there is none now. */
  callerWithDigest(digest: string): Caller | undefined;
  /** Returns the caller with a key of this ID; undefined if there is none now. */
  callerWithId(id: string): Caller | undefined;
  /** Returns the key whose secret has this hash; undefined if there is none now. The same object until it changes. */
  keyWithDigest(digest: string): Key | undefined;
  /** Returns the key with this ID and mark; undefined if there is none now. */
  keyMarked(id: string, mark: string): MarkedKey | undefined;
  /** Calls back whenever keys have changed, until the returned function is called. */
  listen(onChange: () => void): () => void;
  /** Returns whether `authenticate` would return this caller again now. */
  isCurrent(caller: Caller): boolean;
  /**
   * Returns the caller with what it may do now; undefined: it would be refused now. For requests that last longer than
   * their authentication counts.
   */
  currentCaller(caller: Caller): Caller | undefined;
  /** Replaces the keys of the configuration file. */
  declare(keys: readonly DeclaredKey[]): void;
  close(): void;
}

/** Adds what management of keys asks of the keys in memory. */
export interface KnownKeys extends Omit<Authentication, "callerOfPeer"> {
  isDeclared(id: string): boolean;
  isTaken(id: string): boolean;
  /** Returns declared and stored keys. */
  all(): readonly Key[];
  /** Returns the IDs of the stored keys of an environment. */
  storedOf(environment: string): readonly string[];
  /** Returns the digests of the secrets of a stored key. */
  digestsOf(id: string): readonly string[];
}

/** A key, and until when it counts. The caller is the same object until the key changes. */
export interface MarkedKey {
  readonly caller: Caller;
  readonly expiresAtMs: number;
}

interface CachedKey extends MarkedKey {
  readonly key: Key;
  readonly touched: UsedThing;
}

interface AuthenticationOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly lastUsed: LastUsedTimes;
  readonly world: World;
}

/**
 * Opens the authentication of callers. All keys are in memory by digest, because they are few; the store's watch keeps
 * them current.
 */
export async function openAuthentication(options: AuthenticationOptions): Promise<KnownKeys> {
  const { store, collections, lastUsed, world } = options;
  const stored = createStoredKeys(collections);
  const declared = new Map<string, CachedKey>();
  const declaredById = new Map<string, CachedKey>();
  /** The key of the last `isCurrent` call, until a key changes: callers of one process mostly share one key. */
  let last: CachedKey | undefined;
  const changed = createCallbacks<void>();

  const watch = await follow({
    store,
    world,
    spaces: ["key", "key-digest"],
    async read() {
      const [readDigests, readKeys] = await Promise.all([
        store.list({ ...under("key-digest"), limit: Number.MAX_SAFE_INTEGER }),
        collections.keys.page({ under: [], limit: Number.MAX_SAFE_INTEGER }),
      ]);
      return () => {
        last = undefined;
        stored.replace(readDigests, readKeys);
        changed.run();
      };
    },
    onCommit({ changes, revision }) {
      const ofKeys = changes.filter(({ key }) => key.startsWith("key"));
      if (ofKeys.length === 0) return;
      last = undefined;
      stored.apply(ofKeys, revision);
      changed.run();
    },
  });

  function marked(id: string, mark: string): CachedKey | undefined {
    const known = [declaredById.get(id), stored.get(id)].find((one) => one?.caller.keyMark === mark);
    return unlessExpired(known, world.now());
  }

  const keyWith = (digest: string) => declared.get(digest) ?? stored.withDigest(digest);

  function callerOf(known: CachedKey | undefined): Caller {
    if (known === undefined) throw new Fault("unknown_key", "the key is not known", { hint: keysHint });
    if (known.expiresAtMs <= world.now()) throw new Fault("unknown_key", "the key has expired", { hint: keysHint });
    lastUsed.touch(known.touched);
    return known.caller;
  }

  return {
    authenticate(secret) {
      const digest = digestOf(secret);
      const known = keyWith(digest);
      // The key may have been created through another replica a moment ago.
      const behind = known === undefined ? store.caughtUp() : undefined;
      return behind === undefined ? callerOf(known) : behind.then(() => callerOf(keyWith(digest)));
    },
    callerWithDigest: (digest) => unlessExpired(keyWith(digest), world.now())?.caller,
    callerWithId: (id) => unlessExpired(declaredById.get(id) ?? stored.get(id), world.now())?.caller,
    keyWithDigest: (digest) => unlessExpired(keyWith(digest), world.now())?.key,
    keyMarked: marked,
    listen: changed.add,
    isCurrent(caller) {
      if (last?.caller !== caller) last = declaredById.get(caller.keyId) ?? stored.get(caller.keyId);
      const known = last;
      const now = world.now();
      if (known?.caller !== caller || known.expiresAtMs <= now) return false;
      lastUsed.touch(known.touched, now);
      return true;
    },
    currentCaller: ({ keyId, keyMark }) => (keyMark === undefined ? undefined : marked(keyId, keyMark)?.caller),
    isDeclared: (id) => declaredById.has(id),
    isTaken: (id) => declaredById.has(id) || stored.get(id) !== undefined,
    all: () => [...declared.values(), ...stored.all()].map(({ key }) => key),
    storedOf: (environment) => idsIn(stored.all(), environment),
    digestsOf: stored.digestsOf,
    declare(keys) {
      for (const one of [declared, declaredById]) one.clear();
      last = undefined;
      for (const one of keys) {
        const digest = digestOf(one.secret);
        const cached = declaredKey(one, digest);
        declared.set(digest, cached);
        declaredById.set(one.id, cached);
      }
      changed.run();
    },
    close: () => watch.close(),
  };
}

/** The keys of the store, and the hashes of their secrets. */
function createStoredKeys({ keys }: Pick<SetupCollections, "keys">) {
  const byId = new Map<string, CachedKey>();
  const idByDigest = new Map<string, string>();
  const digestById = new Map<string, string>();

  function noteDigest(digest: string, value: Uint8Array | undefined): void {
    if (value === undefined) {
      const id = idByDigest.get(digest) ?? "";
      if (digestById.get(id) === digest) digestById.delete(id);
      idByDigest.delete(digest);
    } else {
      const { keyId } = fromBinary(KeyDigestSchema, value);
      idByDigest.set(digest, keyId);
      digestById.set(keyId, digest);
    }
  }

  function noteKey(id: string, key: Key | undefined): void {
    if (key === undefined) byId.delete(id);
    else byId.set(id, cachedKeyOf(key, digestById.get(id)));
  }

  return {
    get: (id: string) => byId.get(id),
    withDigest: (digest: string) => byId.get(idByDigest.get(digest) ?? ""),
    all: () => [...byId.values()],
    digestsOf: (id: string) => [...idByDigest].filter(([, keyId]) => keyId === id).map(([digest]) => digest),
    /** Digests first: a key is known by the mark that its digest gives. */
    replace(digests: readonly Entry[], all: readonly StoredRecordOf<Key>[]): void {
      for (const one of [byId, idByDigest, digestById]) one.clear();
      for (const { key, value } of digests) noteDigest(partsOf(key)[1] ?? "", value);
      for (const { value } of all) noteKey(value.id, value);
    },
    apply(changes: readonly Change[], revision: number): void {
      for (const { key, value } of changes) {
        const [space, digest = ""] = partsOf(key);
        if (space === "key-digest") noteDigest(digest, value);
      }
      for (const change of changes) {
        const read = keys.read(change, revision);
        if (read !== undefined) noteKey(read.parts[0] ?? "", read.value);
      }
    },
  };
}

const keysHint =
  'create a key with "latchkey keys create"; generated keys are in the files secret-key and admin-key beside the store';

const idsIn = (keys: readonly CachedKey[], environment: string): string[] =>
  keys.filter(({ key }) => key.environment === environment).map(({ key }) => key.id);

const unlessExpired = (known: CachedKey | undefined, nowMs: number): CachedKey | undefined =>
  known === undefined || known.expiresAtMs <= nowMs ? undefined : known;

const declaredKey = ({ id, environment, scopes, limits }: DeclaredKey, digest: string): CachedKey =>
  cachedKeyOf(
    create(KeySchema, { id, environment, scopes: [...scopes], declared: true, ...(limits && { limits }) }),
    digest,
  );

const cachedKeyOf = (key: Key, digest: string | undefined): CachedKey => ({
  key,
  touched: touchedBy(keyTouchKey(key.id)),
  expiresAtMs: key.expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(key.expiresAt),
  caller: callerOfKey(key, digest === undefined ? undefined : markOf(key, digest)),
});

/** A key that is deleted and created again has another secret, and so has a key whose declared secret is replaced. */
const markOf = ({ declared }: Key, digest: string): string =>
  `${declared ? declaredMark : storedMark}${digest.slice(0, 16)}`;

/** Begin the marks of keys in the configuration, and of keys in the store. */
const declaredMark = "01";
const storedMark = "00";

/** Returns whether a mark is that of a key in the store. */
export const isStoredMark = (mark: string): boolean => mark.startsWith(storedMark);
