import { Fault } from "../../base/fault.ts";
import { isSessionToken, shortDigestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { compileAudience } from "../../core/access/audience.ts";
import { intersectLimits } from "../../core/access/intersected-limits.ts";
import { compileLimits } from "../../core/access/limits.ts";
import type { AccessSession, AccessSessionUse } from "../../gen/latchkey/v1/access_session_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { Authentication, MarkedKey } from "../setup/authentication.ts";
import { type Caller, type CallerAccessSession, mayDo } from "../setup/caller.ts";
import { accessSessionSpace } from "./access-session-collections.ts";
import type { AccessBudgets } from "./budgets.ts";
import { createSessionMemory, expiryOf, keyMarkOf, type SessionCreator } from "./session-memory.ts";
import { SessionUse } from "./session-use.ts";

/** Authenticates callers by the tokens of access sessions. */
export interface SessionCallers {
  /** Number of sessions that are in memory. */
  readonly size: number;
  /** Returns the caller without a promise if the session is in memory; throws, or rejects, if it cannot be used. */
  authenticate(token: string): Caller | Promise<Caller>;
  /** Returns the caller of a session now; undefined if the session cannot be used. */
  callerWithDigest(digest: string): SessionCaller | undefined;
  /** Returns whether `authenticate` would return this caller again now. */
  isCurrent(caller: SessionCaller): boolean;
  /** Returns the caller of the same session now; undefined if the session cannot be used. */
  currentCaller(caller: SessionCaller): SessionCaller | undefined;
  /** Returns whether the key that created a session is still there. */
  hasCreator(session: Pick<AccessSession, "createdBy" | "keyMark">): boolean;
  /** Returns what this replica has counted of a session's requests; undefined if it has seen none lately. */
  useOf(id: string): AccessSessionUse | undefined;
  /** Returns the IDs of sessions that this replica has seen requests of, latest use first. */
  inUse(environment: string): readonly string[];
  /** Returns the sessions in memory, with their creators. */
  creators(): Iterable<SessionCreator>;
  /** Calls back whenever sessions have changed, with the IDs of those. */
  listen(onChange: (ids: readonly string[]) => void): () => void;
  close(): void;
}

export type SessionCaller = Caller & { readonly accessSession: CallerAccessSession };

/** A session that was used lately. */
interface UsedSession {
  readonly session: AccessSession;
  readonly keyMark: string;
  readonly endsAtMs: number;
  readonly use: SessionUse;
  /** What the session may do by what its key may do. */
  made: { readonly creator: Caller; readonly caller: SessionCaller } | undefined;
}

interface SessionCallersOptions {
  readonly store: Store;
  readonly keys: Pick<Authentication, "keyMarked" | "listen">;
  readonly budgets: AccessBudgets;
  readonly world: World;
}

export async function openSessionCallers(options: SessionCallersOptions): Promise<SessionCallers> {
  const { store, keys, budgets, world } = options;
  const memory = createSessionMemory<UsedSession>({
    use: (session) => usedSession(session, world),
    drop: retire,
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
  // A session ends with the key that has created it, and never allows more than that key allows now.
  const stop = keys.listen(() => {
    for (const used of memory.decoded()) retire(used);
  });

  function find(digest: string): SessionCaller | undefined {
    const used = memory.get(digest);
    const key = used && keys.keyMarked(used.session.createdBy, used.keyMark);
    if (used === undefined || key === undefined || !isIn(used.session.environment, key)) return undefined;
    const { creator, caller } = used.made ?? {};
    const found = caller !== undefined && creator === key.caller ? caller : callerOf(used, key.caller);
    const { accessSession } = found;
    accessSession.expiresAtMs = Math.min(used.endsAtMs, key.expiresAtMs);
    accessSession.isStale = false;
    return accessSession.expiresAtMs > world.now() ? found : undefined;
  }

  function callerOf(used: UsedSession, creator: Caller): SessionCaller {
    retire(used);
    const caller = sessionCaller(used, creator, budgets);
    used.made = { creator, caller };
    return caller;
  }

  const digestOf = (id: string) => Buffer.from(id, "hex").toString("latin1");
  const findById = (id: string) => find(digestOf(id));

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
    callerWithDigest: (digest) => findById(digest.slice(0, 32)),
    isCurrent: ({ accessSession }) => !accessSession.isStale && accessSession.expiresAtMs > world.now(),
    currentCaller: ({ accessSession }) => findById(accessSession.id),
    hasCreator: (session) => keys.keyMarked(session.createdBy, keyMarkOf(session)) !== undefined,
    useOf: (id) => memory.peek(digestOf(id))?.use.shown(),
    inUse: (environment) => idsInUse(memory.decoded(), environment),
    creators: memory.creators,
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

const usedSession = (session: AccessSession, world: Pick<World, "now">): UsedSession => ({
  session,
  keyMark: keyMarkOf(session),
  endsAtMs: expiryOf(session),
  use: new SessionUse(world),
  made: undefined,
});

const idsInUse = (sessions: Iterable<UsedSession>, environment: string): string[] =>
  [...sessions]
    .filter(({ session, use }) => session.environment === environment && use.seenMs > 0)
    .sort((a, b) => b.use.seenMs - a.use.seenMs)
    .map(({ session }) => session.id);

/** The caller of before is looked up again. */
function retire({ made }: UsedSession): void {
  if (made !== undefined) made.caller.accessSession.isStale = true;
}

const isIn = (environment: string, { caller }: MarkedKey): boolean =>
  caller.environment === undefined || caller.environment === environment;

/** Returns the caller of a session: it may do what the session and its creator both may do. */
function sessionCaller({ session, use }: UsedSession, creator: Caller, budgets: AccessBudgets): SessionCaller {
  const { id, environment, scopes, createdBy, budget } = session;
  return {
    keyId: createdBy,
    environment,
    scopes: new Set(scopes.filter((scope) => mayDo(creator, scope))),
    limits: compileLimits(intersectLimits(session.limits, creator.limits?.given)),
    accessSession: {
      id,
      expiresAtMs: expiryOf(session),
      isStale: false,
      audience: compileAudience(session.audience),
      use,
      budget: budget === 0n ? undefined : { tryTake: () => budgets.tryTake(id), take: () => budgets.take(id) },
    },
  };
}
