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
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
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
  /** Returns the key with this ID; undefined if there is none now. */
  keyNamed(id: string): Key | undefined;
  /** Calls back whenever keys have changed, until the returned function is called. */
  listen(onChange: () => void): () => void;
  /** Returns whether `authenticate` would return this caller again now. */
  isCurrent(caller: Caller): boolean;
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

interface CachedKey {
  readonly key: Key;
  readonly caller: Caller;
  readonly expiresAtMs: number;
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
  const stored = new Map<string, CachedKey>();
  const declared = new Map<string, CachedKey>();
  const declaredById = new Map<string, CachedKey>();
  const digests = new Map<string, string>();
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
        digests.clear();
        stored.clear();
        last = undefined;
        for (const { key, value } of readDigests) noteDigest(partsOf(key)[1] ?? "", value);
        for (const { value } of readKeys) noteKey(value.id, value);
        changed.run();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        if (!change.key.startsWith("key")) continue;
        const [space, part = ""] = partsOf(change.key);
        if (space === "key-digest") noteDigest(part, change.value);
        const key = collections.keys.read(change, revision);
        if (key !== undefined) noteKey(part, key.value);
      }
      if (changes.some(({ key }) => key.startsWith("key"))) changed.run();
    },
  });

  function noteDigest(digest: string, value: Uint8Array | undefined): void {
    if (value === undefined) digests.delete(digest);
    else digests.set(digest, fromBinary(KeyDigestSchema, value).keyId);
  }

  function noteKey(id: string, key: Key | undefined): void {
    last = undefined;
    if (key === undefined) stored.delete(id);
    else stored.set(id, cachedKeyOf(key));
  }

  const keyWith = (digest: string) => declared.get(digest) ?? stored.get(digests.get(digest) ?? "");

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
    keyNamed: (id) => unlessExpired(declaredById.get(id) ?? stored.get(id), world.now())?.key,
    listen: changed.add,
    isCurrent(caller) {
      if (last?.caller !== caller) last = declaredById.get(caller.keyId) ?? stored.get(caller.keyId);
      const known = last;
      const now = world.now();
      if (known?.caller !== caller || known.expiresAtMs <= now) return false;
      lastUsed.touch(known.touched, now);
      return true;
    },
    isDeclared: (id) => declaredById.has(id),
    isTaken: (id) => declaredById.has(id) || stored.has(id),
    all: () => [...declared.values(), ...stored.values()].map(({ key }) => key),
    storedOf: (environment) => idsIn(stored, environment),
    digestsOf: (id) => [...digests].filter(([, keyId]) => keyId === id).map(([digest]) => digest),
    declare(keys) {
      for (const one of [declared, declaredById]) one.clear();
      last = undefined;
      for (const one of keys) {
        const cached = declaredKey(one);
        declared.set(digestOf(one.secret), cached);
        declaredById.set(one.id, cached);
      }
      changed.run();
    },
    close: () => watch.close(),
  };
}

const keysHint =
  'create a key with "latchkey keys create"; generated keys are in the files secret-key and admin-key beside the store';

const idsIn = (keys: ReadonlyMap<string, CachedKey>, environment: string): string[] =>
  [...keys.values()].filter(({ key }) => key.environment === environment).map(({ key }) => key.id);

const unlessExpired = (known: CachedKey | undefined, nowMs: number): CachedKey | undefined =>
  known === undefined || known.expiresAtMs <= nowMs ? undefined : known;

const declaredKey = ({ id, environment, scopes, limits }: DeclaredKey): CachedKey =>
  cachedKeyOf(create(KeySchema, { id, environment, scopes: [...scopes], declared: true, ...(limits && { limits }) }));

const cachedKeyOf = (key: Key): CachedKey => ({
  key,
  touched: touchedBy(keyTouchKey(key.id)),
  expiresAtMs: key.expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(key.expiresAt),
  caller: callerOfKey(key),
});
