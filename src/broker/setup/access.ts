import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf, newSecretKey, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { defaultScopes } from "../../core/scopes.ts";
import { KeyDigestSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { type Authentication, openAuthentication } from "./authentication.ts";
import { keyDigestKey, keyTouchKey, type SetupCollections } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

export interface NewKey {
  readonly id: string;
  readonly environment: string;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: number | undefined;
}

export interface KeyRotation {
  readonly id: string;
  /** Empty: the old id with the next number. */
  readonly newId: string;
  readonly overlapMs: number;
  readonly expiresAtMs: number | undefined;
  readonly expectedRevision: bigint;
}

export interface RotatedKey {
  readonly key: Key;
  readonly secret: string;
  /** The old key; undefined if it was deleted. */
  readonly previous: Key | undefined;
}

/** Keys: authenticates callers, and creates, lists and revokes the keys of the store. */
export interface Access extends Authentication {
  create(key: NewKey, actor: string): Promise<{ readonly key: Key; readonly secret: string }>;
  list(filter: { readonly environment: string }, page: PageOptions): Promise<PageOf<Key>>;
  /** Creates a successor with the same environment and scopes; the old key ends after the overlap. */
  rotate(request: KeyRotation, actor: string): Promise<RotatedKey>;
  revoke(request: { readonly id: string; readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /** Returns the changes that delete every key of an environment, to commit together with the other deletions. */
  deletionOfAll(environment: string): Promise<Change[]>;
}

interface AccessOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly lastUsed: LastUsedTimes;
  readonly audit: Audit;
  readonly world: World;
}

export async function openAccess(options: AccessOptions): Promise<Access> {
  const { store, collections, lastUsed, audit, world } = options;
  const keys = await openAuthentication({ store, collections, lastUsed, world });

  function requireUnused(id: string): void {
    if (keys.isTaken(id)) throw new Fault("already_exists", `there is a key "${id}" already`);
  }

  function deletion(before: StoredRecordOf<Key>): Change[] {
    const { id } = before.value;
    const gone = keys.digestsOf(id).map(keyDigestKey);
    return [
      ...collections.keys.change({ before, after: undefined }),
      ...[...gone, keyTouchKey(id)].map((key) => ({ key, value: undefined })),
    ];
  }

  const addition = (key: Key, secret: string): Change[] => [
    ...collections.keys.change({ before: undefined, after: key }),
    {
      key: keyDigestKey(digestOf(secret)),
      value: toBinary(KeyDigestSchema, create(KeyDigestSchema, { keyId: key.id })),
      expect: 0,
    },
  ];

  return {
    authenticate: keys.authenticate,
    isCurrent: keys.isCurrent,
    declare: keys.declare,
    close: keys.close,
    async create({ id: asked, environment, scopes: wanted, expiresAtMs }, actor) {
      const id = asked === "" ? randomId() : asked;
      const scopes = wanted.length > 0 ? wanted : defaultScopes;
      requireScopesFit(environment, scopes);
      requireUnused(id);
      const secret = newSecretKey();
      const key = create(KeySchema, {
        id,
        environment,
        scopes: [...scopes],
        createdAt: timestampFromMs(world.now()),
        createdBy: actor,
        ...expiryAt(expiresAtMs),
      });
      const { revision } = await transact(store, async () => {
        const home = environment === "" ? undefined : await collections.environments.get(environment);
        if (environment !== "" && home === undefined) {
          throw await unknownEnvironment(collections, environment);
        }
        requireUnused(id);
        return {
          changes: [
            ...addition(key, secret),
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
      const all = keys
        .all()
        .filter((key) => environment === "" || key.environment === environment)
        .sort((a, b) => (a.id < b.id ? -1 : 1));
      const rest = all.filter(({ id }) => from === undefined || id > from);
      const shown = rest.slice(0, size);
      const used = await lastUsed.lastOf(shown.map(({ id }) => keyTouchKey(id)));
      const items = shown.map((key, i): Key => {
        const at = used[i];
        return at === undefined ? key : { ...key, lastUsedAt: timestampFromMs(at) };
      });
      return { items, next: rest.length > size ? tokens.write(shown.at(-1)?.id ?? "") : "" };
    },
    async rotate({ id, newId: asked, overlapMs, expiresAtMs, expectedRevision }, actor) {
      if (keys.isDeclared(id)) {
        throw new Fault("read_only", `the key "${id}" is declared in the configuration; change it there`);
      }
      if (asked !== "") requireUnused(asked);
      const secret = newSecretKey();
      const { result, revision } = await transact(store, async () => {
        await store.caughtUp();
        const before = await collections.keys.get(id);
        if (before === undefined) throw new Fault("not_found", `there is no key "${id}"`);
        requireRevision(before, expectedRevision);
        const newId = asked === "" ? nextId(id, keys.isTaken) : asked;
        requireUnused(newId);
        const { environment, scopes, expiresAt } = before.value;
        const now = world.now();
        const key = create(KeySchema, {
          id: newId,
          environment,
          scopes: [...scopes],
          createdAt: timestampFromMs(now),
          createdBy: actor,
          replaces: id,
          ...expiryAt(expiresAtMs),
        });
        const endsMs = Math.min(
          now + overlapMs,
          expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt),
        );
        const previous = overlapMs === 0 ? undefined : { ...before.value, expiresAt: timestampFromMs(endsMs) };
        return {
          changes: [
            ...addition(key, secret),
            ...(previous === undefined ? deletion(before) : collections.keys.change({ before, after: previous })),
            ...audit.changes({ actor, action: "key.rotate", environment, targets: [id, newId] }),
          ],
          result: { key, previous },
        };
      });
      const at = { revision: BigInt(revision) };
      return { key: { ...result.key, ...at }, secret, previous: result.previous && { ...result.previous, ...at } };
    },
    async revoke({ id, expectedRevision }, actor) {
      if (keys.isDeclared(id)) {
        throw new Fault("read_only", `the key "${id}" is declared in the configuration; remove it there`);
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
      const found = await collections.keys.getMany(keys.storedOf(environment).map((id) => [id]));
      return found.flatMap((before) => (before === undefined ? [] : deletion(before)));
    },
  };
}

const expiryAt = (ms: number | undefined) => (ms === undefined ? {} : { expiresAt: timestampFromMs(ms) });

/** The longest name of a key. */
const mostIdLength = 64;

/** Returns the name of a successor: `app-2` for `app`, `app-3` for `app-2`. */
function nextId(id: string, isTaken: (id: string) => boolean): string {
  const [, stem = id, count = "1"] = /^(.+?)-(\d{1,6})$/.exec(id) ?? [];
  for (let next = Number(count) + 1; ; next += 1) {
    const ending = `-${next}`;
    const name = `${stem.slice(0, mostIdLength - ending.length)}${ending}`;
    if (!isTaken(name)) return name;
  }
}

/** Throws unless a key of an environment lacks the scope admin, and a key of none has admin alone. */
function requireScopesFit(environment: string, scopes: readonly Scope[]): void {
  if ((environment === "") !== scopes.includes(Scope.ADMIN) || (environment === "" && scopes.length > 1)) {
    const message = "a key must belong to an environment, or have only the scope admin and no environment";
    throw new Fault("invalid_body", message, { mistakes: [{ path: ["scopes"], message }] });
  }
}
