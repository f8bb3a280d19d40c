import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { isSessionToken, shortDigestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { compileAudience } from "../../core/access/audience.ts";
import { compileLimits } from "../../core/access/limits.ts";
import type { AccessSession } from "../../gen/latchkey/v1/access_session_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { Authentication } from "../setup/authentication.ts";
import type { Caller, CallerAccessSession } from "../setup/caller.ts";
import { accessSessionSpace } from "./access-session-collections.ts";
import type { AccessBudgets } from "./budgets.ts";
import { createSessionMemory, expiryOf } from "./session-memory.ts";

/** Authenticates callers by the tokens of access sessions. */
export interface SessionCallers {
  /** Number of sessions that are in memory. */
  readonly size: number;
  /** Returns the caller without a promise if the session is in memory; throws, or rejects, if it cannot be used. */
  authenticate(token: string): Caller | Promise<Caller>;
  /** Returns the caller of a session now; undefined if the session cannot be used. */
  callerWithDigest(digest: string): SessionCaller | undefined;
  /** Returns whether `authenticate` would return this caller again now. */
  isCurrent(caller: Caller & { readonly accessSession: CallerAccessSession }): boolean;
  /** Calls back whenever sessions have changed, with the IDs of those. */
  listen(onChange: (ids: readonly string[]) => void): () => void;
  close(): void;
}

export type SessionCaller = Caller & { readonly accessSession: CallerAccessSession };

/** A session that was used lately. */
interface UsedSession {
  readonly caller: SessionCaller;
  readonly endsAtMs: number;
}

interface SessionCallersOptions {
  readonly store: Store;
  readonly keys: Pick<Authentication, "keyNamed" | "listen">;
  readonly budgets: AccessBudgets;
  readonly world: World;
}

export async function openSessionCallers(options: SessionCallersOptions): Promise<SessionCallers> {
  const { store, keys, budgets, world } = options;
  const memory = createSessionMemory<UsedSession>({
    use: (session) => ({ caller: sessionCaller(session, budgets, isOver), endsAtMs: expiryOf(session) }),
    drop: ({ caller }) => {
      caller.accessSession.isStale = true;
    },
  });
  const listeners = new Set<(ids: readonly string[]) => void>();

  const watch = await follow({
    store,
    world,
    spaces: [accessSessionSpace],
    async read() {
      const found = await store.list({ ...under(accessSessionSpace), limit: Number.MAX_SAFE_INTEGER });
      return () => {
        memory.clear();
        for (const { key, value } of found) memory.put(partsOf(key)[1] ?? "", value);
      };
    },
    onCommit({ changes }) {
      const changed: string[] = [];
      for (const { key, value } of changes) {
        const [space, id = ""] = partsOf(key);
        if (space !== accessSessionSpace) continue;
        if (value === undefined) memory.delete(id);
        else memory.put(id, value);
        changed.push(id);
      }
      if (changed.length > 0) for (const listener of listeners) listener(changed);
    },
  });
  // A session ends with the key that has created it.
  const stop = keys.listen(() => {
    for (const { caller } of memory.decoded()) caller.accessSession.isStale = true;
  });

  function find(digest: string): SessionCaller | undefined {
    const used = memory.get(digest);
    const key = used && keys.keyNamed(used.caller.keyId);
    if (used === undefined || key === undefined) return undefined;
    const { caller, endsAtMs } = used;
    const { accessSession } = caller;
    accessSession.expiresAtMs = key.expiresAt === undefined ? endsAtMs : Math.min(endsAtMs, timestampMs(key.expiresAt));
    accessSession.isStale = false;
    return accessSession.expiresAtMs > world.now() ? caller : undefined;
  }

  const isOver = (id: string): boolean => find(Buffer.from(id, "hex").toString("latin1")) === undefined;

  function usable(digest: string): SessionCaller {
    const caller = find(digest);
    if (caller !== undefined) return caller;
    const message = "the access session has ended, or is not known";
    throw new Fault("unknown_key", message, { hint: 'create a session with "latchkey access-sessions create"' });
  }

  return {
    get size() {
      return memory.size;
    },
    authenticate(token) {
      const digest = shortDigestOf(token);
      if (memory.get(digest) !== undefined) return usable(digest);
      // Random guesses do not reach the store.
      if (!isSessionToken(token)) throw new Fault("unknown_key", "the token of an access session is not complete");
      // The session may have been created through another replica a moment ago.
      const behind = store.caughtUp();
      return behind === undefined ? usable(digest) : behind.then(() => usable(digest));
    },
    callerWithDigest: (digest) => find(Buffer.from(digest.slice(0, 32), "hex").toString("latin1")),
    isCurrent: ({ accessSession }) => !accessSession.isStale && accessSession.expiresAtMs > world.now(),
    listen(onChange) {
      listeners.add(onChange);
      return () => void listeners.delete(onChange);
    },
    close() {
      stop();
      watch.close();
    },
  };
}

function sessionCaller(session: AccessSession, budgets: AccessBudgets, isOver: (id: string) => boolean): SessionCaller {
  const { id, environment, scopes, createdBy, budget } = session;
  return {
    keyId: createdBy,
    environment,
    scopes: new Set(scopes),
    limits: compileLimits(session.limits),
    accessSession: {
      id,
      expiresAtMs: expiryOf(session),
      isStale: false,
      audience: compileAudience(session.audience),
      budget: budget === 0n ? undefined : { tryTake: () => budgets.tryTake(id), take: () => budgets.take(id) },
      isOver: () => isOver(id),
    },
  };
}
