import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { newSecretKey, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { mistakesInLimits } from "../../core/access/limit-mistakes.ts";
import { isUnlimited } from "../../core/access/limits.ts";
import { defaultLimitedScopes, defaultScopes, limitableScopes, scopeName } from "../../core/scopes.ts";
import { type AccessLimits, Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { type Authentication, openAuthentication } from "./authentication.ts";
import { createKeyChanges, expiryAt } from "./key-changes.ts";
import { createKeyRotation, type RotateKey } from "./key-rotation.ts";
import { keyTouchKey, type SetupCollections } from "./setup-collections.ts";
import { unknownEnvironment } from "./unknown-environment.ts";

export interface NewKey {
  readonly id: string;
  readonly environment: string;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: number | undefined;
  readonly limits: AccessLimits | undefined;
}

/** Keys: authenticates callers, and creates, lists and revokes the keys of the store. */
export interface Access extends Authentication {
  create(key: NewKey, actor: string): Promise<{ readonly key: Key; readonly secret: string }>;
  list(filter: { readonly environment: string }, page: PageOptions): Promise<PageOf<Key>>;
  readonly rotate: RotateKey;
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
  const { isDeclared: _, isTaken: __, all: ___, storedOf: ____, digestsOf: _____, ...authentication } = keys;
  const changes = createKeyChanges({ collections, keys });

  function requireUnused(id: string): void {
    if (keys.isTaken(id)) throw new Fault("already_exists", `there is a key "${id}" already`);
  }

  return {
    ...authentication,
    callerOfPeer: () => undefined,
    async create({ id: asked, environment, scopes: wanted, expiresAtMs, limits: asksLimits }, actor) {
      const id = asked === "" ? randomId() : asked;
      const limits = asksLimits === undefined || isUnlimited(asksLimits) ? undefined : asksLimits;
      const scopes = wanted.length > 0 ? wanted : limits === undefined ? defaultScopes : defaultLimitedScopes;
      requireScopesFit(environment, scopes);
      if (limits !== undefined) requireLimitsFit(limits, scopes);
      requireUnused(id);
      const secret = newSecretKey();
      const key = create(KeySchema, {
        id,
        environment,
        scopes: [...scopes],
        createdAt: timestampFromMs(world.now()),
        createdBy: actor,
        ...expiryAt(expiresAtMs),
        ...(limits && { limits }),
      });
      const { revision } = await transact(store, async () => {
        const home = environment === "" ? undefined : await collections.environments.get(environment);
        if (environment !== "" && home === undefined) {
          throw await unknownEnvironment(collections, environment);
        }
        requireUnused(id);
        return {
          changes: [
            ...changes.addition(key, secret),
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
    rotate: createKeyRotation({ store, collections, keys, changes, audit, world }),
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
          changes: [
            ...changes.deletion(before),
            ...audit.changes({ actor, action: "key.revoke", environment, targets: [id] }),
          ],
          result: undefined,
        };
      });
    },
    async deletionOfAll(environment) {
      await store.caughtUp();
      const found = await collections.keys.getMany(keys.storedOf(environment).map((id) => [id]));
      return found.flatMap((before) => (before === undefined ? [] : changes.deletion(before)));
    },
  };
}

/** Throws unless a key of an environment lacks the scope admin, and a key of none has admin alone. */
function requireScopesFit(environment: string, scopes: readonly Scope[]): void {
  if ((environment === "") !== scopes.includes(Scope.ADMIN) || (environment === "" && scopes.length > 1)) {
    const message = "a key must belong to an environment, or have only the scope admin and no environment";
    throw new Fault("invalid_body", message, { mistakes: [{ path: ["scopes"], message }] });
  }
}

/** Throws unless limits are well-formed, and the scopes of their key do not reach beyond them. */
function requireLimitsFit(limits: AccessLimits, scopes: readonly Scope[]): void {
  const mistakes = mistakesInLimits(limits).map(({ path, message }) => ({ path: ["limits", ...path], message }));
  const beyond = scopes.filter((scope) => !limitableScopes.has(scope)).map(scopeName);
  if (beyond.length > 0) {
    mistakes.push({ path: ["scopes"], message: `must not contain ${beyond.join(", ")} for a key with limits` });
  }
  if (mistakes.length === 0) return;
  const text = mistakes.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ");
  throw new Fault("invalid_body", `the key is not valid: ${text}`, { mistakes });
}
