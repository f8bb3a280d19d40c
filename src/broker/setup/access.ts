import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf, newSecretKey, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import type { DeclaredKey } from "../../core/declared.ts";
import { defaultScopes, scopeName } from "../../core/scopes.ts";
import { KeyDigestSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import { type LastUsedTimes, touchedBy, type UsedThing } from "../stored/last-used.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { keyDigestKey, keyTouchKey, type SetupCollections } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

/** A caller: its key and what the key may do. */
export interface Caller {
  readonly keyId: string;
  /** Undefined for a control key, which belongs to no environment. */
  readonly environment: string | undefined;
  readonly scopes: ReadonlySet<Scope>;
}

export interface NewKey {
  readonly id: string;
  readonly environment: string;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: number | undefined;
}

export interface Access {
  /**
   * Returns the caller that a secret belongs to, without a promise if the key is in memory. Otherwise throws, or
   * rejects with, the fault that the listener answers with.
   */
  authenticate(secret: string): Caller | Promise<Caller>;
  /** Returns whether `authenticate` would return this caller again now. */
  isCurrent(caller: Caller): boolean;
  create(key: NewKey, actor: string): Promise<{ readonly key: Key; readonly secret: string }>;
  list(filter: { readonly environment: string }, page: PageOptions): Promise<PageOf<Key>>;
  revoke(asked: { readonly id: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /** Returns the changes that delete every key of an environment, to commit together with the other deletions. */
  deletionOfAll(environment: string): Promise<Change[]>;
  declare(keys: readonly DeclaredKey[]): void;
  close(): void;
}

interface AccessOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly touches: LastUsedTimes;
  readonly audit: Audit;
  readonly world: World;
}

interface CachedKey {
  readonly key: Key;
  readonly caller: Caller;
  readonly expiresAtMs: number;
  readonly touched: UsedThing;
}

/** Returns whether a caller has a scope. A control key with `admin` may do everything. */
export const mayDo = ({ environment, scopes }: Caller, scope: Scope): boolean =>
  (environment === undefined && scopes.has(Scope.ADMIN)) || scopes.has(scope);

export function requireScope(caller: Caller, scope: Scope): void {
  if (mayDo(caller, scope)) return;
  throw new Fault("missing_scope", `the key "${caller.keyId}" does not have the scope ${scopeName(scope)}`);
}

/** Opens the keys. All keys are in memory by digest, because they are few; the store's watch keeps them current. */
export async function openAccess(options: AccessOptions): Promise<Access> {
  const { store, collections, touches, audit, world } = options;
  const stored = new Map<string, CachedKey>();
  const declared = new Map<string, CachedKey>();
  const declaredById = new Map<string, CachedKey>();
  const digests = new Map<string, string>();
  /** The key of the last `isCurrent` call, until a key changes: callers of one process mostly share one key. */
  let last: CachedKey | undefined;

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
    },
  });

  function noteDigest(digest: string, value: Uint8Array | undefined): void {
    if (value === undefined) digests.delete(digest);
    else digests.set(digest, fromBinary(KeyDigestSchema, value).keyId);
  }

  function noteKey(id: string, key: Key | undefined): void {
    last = undefined;
    if (key === undefined) stored.delete(id);
    else stored.set(id, knownOf(key));
  }

  const isDeclared = (id: string) => declaredById.has(id);

  function requireUnused(id: string): void {
    if (isDeclared(id) || stored.has(id)) throw new Fault("already_exists", `there is a key "${id}" already`);
  }

  function deletion(before: StoredRecordOf<Key>): Change[] {
    const { id } = before.value;
    const gone = [...digests].filter(([, keyId]) => keyId === id).map(([digest]) => keyDigestKey(digest));
    return [
      ...collections.keys.change({ before, after: undefined }),
      ...[...gone, keyTouchKey(id)].map((key) => ({ key, value: undefined })),
    ];
  }

  const knownBy = (digest: string) => declared.get(digest) ?? stored.get(digests.get(digest) ?? "");

  function callerOf(known: CachedKey | undefined): Caller {
    if (known === undefined) throw new Fault("unknown_key", "the key is not known");
    if (known.expiresAtMs <= world.now()) throw new Fault("unknown_key", "the key has expired");
    touches.touch(known.touched);
    return known.caller;
  }

  return {
    authenticate(secret) {
      const digest = digestOf(secret);
      const known = knownBy(digest);
      // The key may have been created through another replica a moment ago.
      const behind = known === undefined ? store.caughtUp() : undefined;
      return behind === undefined ? callerOf(known) : behind.then(() => callerOf(knownBy(digest)));
    },
    isCurrent(caller) {
      if (last?.caller !== caller) last = declaredById.get(caller.keyId) ?? stored.get(caller.keyId);
      const known = last;
      const now = world.now();
      if (known?.caller !== caller || known.expiresAtMs <= now) return false;
      touches.touch(known.touched, now);
      return true;
    },
    async create({ id: asked, environment, scopes: wanted, expiresAtMs }, actor) {
      const id = asked === "" ? randomId() : asked;
      const scopes = wanted.length > 0 ? wanted : defaultScopes;
      if ((environment === "") !== scopes.includes(Scope.ADMIN) || (environment === "" && scopes.length > 1)) {
        const message = "a key belongs to an environment, or has the scope admin alone and belongs to none";
        throw new Fault("invalid_body", message, { mistakes: [{ path: ["scopes"], message }] });
      }
      requireUnused(id);
      const secret = newSecretKey();
      const key = create(KeySchema, {
        id,
        environment,
        scopes: [...scopes],
        createdAt: timestampFromMs(world.now()),
        ...(expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) }),
      });
      const digest = keyDigestKey(digestOf(secret));
      const { revision } = await transact(store, async () => {
        const home = environment === "" ? undefined : await collections.environments.get(environment);
        if (environment !== "" && home === undefined) {
          throw await unknownEnvironment(collections, environment);
        }
        requireUnused(id);
        return {
          changes: [
            ...collections.keys.change({ before: undefined, after: key }),
            { key: digest, value: toBinary(KeyDigestSchema, create(KeyDigestSchema, { keyId: id })), expect: 0 },
            ...audit.changes({ actor, action: "key.create", environment, targets: [id] }),
          ],
          conditions: home === undefined ? [] : [collections.environments.unchanged(home)],
          result: undefined,
        };
      });
      return { key: { ...key, revision: BigInt(revision) }, secret };
    },
    async list({ environment }, { size, token }) {
      const tokens = pageTokens(["keys", environment]);
      const from = tokens.read(token);
      await store.caughtUp();
      const all = [...declared.values(), ...stored.values()]
        .map(({ key }) => key)
        .filter((key) => environment === "" || key.environment === environment)
        .sort((a, b) => (a.id < b.id ? -1 : 1));
      const rest = all.filter(({ id }) => from === undefined || id > from);
      const shown = rest.slice(0, size);
      const used = await touches.lastOf(shown.map(({ id }) => keyTouchKey(id)));
      const items = shown.map((key, i): Key => {
        const at = used[i];
        return at === undefined ? key : { ...key, lastUsedAt: timestampFromMs(at) };
      });
      return { items, next: rest.length > size ? tokens.write(shown.at(-1)?.id ?? "") : "" };
    },
    async revoke({ id, expectedRevision }, actor) {
      if (isDeclared(id)) {
        throw new Fault("read_only", `the key "${id}" is declared in configuration and is taken out there`);
      }
      await transact(store, async () => {
        // Delete the digests with the key: a digest left behind would authenticate as the next key with the same id.
        await store.caughtUp();
        const before = await collections.keys.get(id);
        if (before === undefined) throw new Fault("not_found", `there is no key "${id}"`);
        requireRevision(before, expectedRevision);
        const { environment } = before.value;
        return {
          changes: [...deletion(before), ...audit.changes({ actor, action: "key.revoke", environment, targets: [id] })],
          result: undefined,
        };
      });
    },
    async deletionOfAll(environment) {
      await store.caughtUp();
      const ids = [...stored.values()].filter(({ key }) => key.environment === environment).map(({ key }) => [key.id]);
      const found = await collections.keys.getMany(ids);
      return found.flatMap((before) => (before === undefined ? [] : deletion(before)));
    },
    declare(keys) {
      declared.clear();
      declaredById.clear();
      last = undefined;
      for (const { id, environment, secret, scopes } of keys) {
        const key = create(KeySchema, { id, environment, scopes: [...scopes], declared: true });
        const known = knownOf(key);
        declared.set(digestOf(secret), known);
        declaredById.set(id, known);
      }
    },
    close: () => watch.close(),
  };
}

const knownOf = (key: Key): CachedKey => ({
  key,
  touched: touchedBy(keyTouchKey(key.id)),
  expiresAtMs: key.expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(key.expiresAt),
  caller: {
    keyId: key.id,
    environment: key.environment === "" ? undefined : key.environment,
    scopes: new Set(key.scopes),
  },
});
