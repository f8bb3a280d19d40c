import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf, newSessionToken } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { AccessSessionBudgetSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type AccessSession, AccessSessionState } from "../../gen/latchkey/v1/access_session_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type Records, type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Caller } from "../setup/caller.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import type { AccessSessionCollections } from "./access-session-collections.ts";
import { type AccessSessionTimes, type NewAccessSession, newAccessSession } from "./new-session.ts";
import type { SessionCallers } from "./session-callers.ts";
import { expiryOf, keyMarkOf } from "./session-memory.ts";

/** Creates, shows and ends access sessions. A limited key sees and ends those that it has created. */
export interface AccessSessions {
  create(
    wanted: NewAccessSession,
    caller: Caller,
  ): Promise<{ readonly session: AccessSession; readonly token: string }>;
  get(ref: AccessSessionRef, caller: Caller): Promise<AccessSession>;
  list(query: AccessSessionQuery, page: PageOptions, caller: Caller): Promise<PageOf<AccessSession>>;
  /** Ends a session; one that has ended stays as it is. */
  end(ref: AccessSessionRef, caller: Caller): Promise<AccessSession>;
  /** Returns the changes that delete every session of an environment, to commit together with other deletions. */
  deletionOfAll(environment: string): Promise<Change[]>;
}

export interface AccessSessionRef {
  readonly environment: string;
  readonly id: string;
}

export interface AccessSessionQuery {
  readonly environment: string;
  /** Those that have ended, in place of the others. */
  readonly ended: boolean;
  /** Those that this replica has seen requests of, latest use first, on one page. */
  readonly inUse?: boolean;
}

interface AccessSessionsOptions {
  readonly store: Store;
  readonly collections: AccessSessionCollections & SetupCollections & { readonly connections: Records<Connection> };
  readonly memory: Pick<SessionCallers, "size" | "hasCreator" | "useOf" | "inUse">;
  readonly times: AccessSessionTimes;
  readonly audit: Audit;
  readonly world: World;
}

const noMark = new Uint8Array();
/** Every replica keeps all sessions in memory: these take about 60 MB. */
const maxSessions = 200_000;

export function createAccessSessions(options: AccessSessionsOptions): AccessSessions {
  const { store, collections, memory, times, audit, world } = options;
  const { accessSessions, endedAccessSessions, accessSessionBudgets } = collections;

  async function find({ environment, id }: AccessSessionRef, caller: Caller) {
    const live = namesNothing(id) ? undefined : await accessSessions.get(id);
    const found = live ?? (namesNothing(id) ? undefined : await endedAccessSessions.get(id));
    if (found === undefined || found.value.environment !== environment || !isVisible(found.value, caller)) {
      throw new Fault("not_found", "there is no such access session");
    }
    return { live, found };
  }

  function stateOf(session: AccessSession): AccessSessionState {
    if (session.endedBy !== "") return AccessSessionState.ENDED;
    if (session.endedAt !== undefined || expiryOf(session) <= world.now()) return AccessSessionState.EXPIRED;
    return memory.hasCreator(session) ? AccessSessionState.ACTIVE : AccessSessionState.ENDED;
  }

  function shown(session: AccessSession, budgetLeft?: bigint): AccessSession {
    const state = stateOf(session);
    const use = memory.useOf(session.id);
    return { ...session, state, keyMark: noMark, ...(use && { use }), ...(budgetLeft !== undefined && { budgetLeft }) };
  }

  async function listInUse(environment: string, size: number, caller: Caller): Promise<PageOf<AccessSession>> {
    const ids = memory.inUse(environment).map((id) => [id]);
    const found = (await accessSessions.getMany(ids)).flatMap((one) => (one === undefined ? [] : [one.value]));
    const wanted = found.filter((one) => isVisible(one, caller) && stateOf(one) === AccessSessionState.ACTIVE);
    return { items: wanted.slice(0, size).map((one) => shown(one)), next: "" };
  }

  return {
    async create(wanted, caller) {
      if (memory.size >= maxSessions) {
        throw new Fault("too_many_requests", `there are ${maxSessions} access sessions already; end some`);
      }
      const token = newSessionToken();
      const id = idOfToken(token);
      const session = newAccessSession(wanted, { caller, id, nowMs: world.now(), times });
      const { environment, budget } = session;
      await requireConnections(collections, session);
      const budgetRecord = create(AccessSessionBudgetSchema, { sessionId: id, left: budget });
      const revision = await store.commit([
        ...accessSessions.added(session),
        ...(budget === 0n ? [] : accessSessionBudgets.added(budgetRecord)),
        ...audit.changes({ actor: caller.keyId, action: "access_session.create", environment, targets: [id] }),
      ]);
      const made = { ...session, revision: BigInt(revision) };
      return { session: shown(made, budget === 0n ? undefined : budget), token };
    },
    async get(ref, caller) {
      const { found, live } = await find(ref, caller);
      const { value } = found;
      if (value.budget === 0n || live === undefined) return shown(value);
      return shown(value, (await accessSessionBudgets.get(ref.id))?.value.left ?? 0n);
    },
    async list({ environment, ended, inUse = false }, page, caller) {
      if (inUse && ended) {
        const message = "must not be set together with ended";
        throw new Fault("invalid_body", `in_use ${message}`, { mistakes: [{ path: ["in_use"], message }] });
      }
      if (inUse) return listInUse(environment, page.size, caller);
      const records = ended ? endedAccessSessions : accessSessions;
      const { items, next } = await siftedPage({
        question: ["access-sessions", environment, ended, caller.limits === undefined ? "" : caller.keyId],
        page,
        read: (request) => records.pageBy("environment", { under: [environment], reverse: true, ...request }),
        isWanted: (session) => isVisible(session, caller) && (ended || stateOf(session) === AccessSessionState.ACTIVE),
        isPast: () => false,
      });
      return { items: items.map((session) => shown(session)), next };
    },
    async end(ref, caller) {
      const { result, revision } = await transact(store, async () => {
        const { live, found } = await find(ref, caller);
        if (live === undefined) return { changes: [], result: found.value };
        const after = { ...live.value, endedAt: timestampFromMs(world.now()), endedBy: caller.keyId };
        const { environment, id } = after;
        return {
          changes: [
            ...endingOf(collections, live, after),
            ...(await budgetDeletion(collections, id)),
            ...audit.changes({ actor: caller.keyId, action: "access_session.end", environment, targets: [id] }),
          ],
          result: after,
        };
      });
      return shown(revision === 0 ? result : { ...result, revision: BigInt(revision) });
    },
    deletionOfAll: (environment) => deletionOfAll(collections, environment),
  };
}

async function budgetDeletion({ accessSessionBudgets }: AccessSessionCollections, id: string): Promise<Change[]> {
  const before = await accessSessionBudgets.get(id);
  // A replica may draw from it at the same time: the commit then fails, and is tried again.
  return before === undefined ? [] : accessSessionBudgets.change({ before, after: undefined });
}

async function deletionOfAll(collections: AccessSessionCollections, environment: string): Promise<Change[]> {
  const { accessSessions, endedAccessSessions } = collections;
  const everything = { under: [environment], limit: Number.MAX_SAFE_INTEGER };
  const live = await accessSessions.pageBy("environment", everything);
  const ended = await endedAccessSessions.pageBy("environment", everything);
  const budgets = await Promise.all(live.map(({ value }) => budgetDeletion(collections, value.id)));
  return [
    ...live.flatMap((before) => accessSessions.change({ before, after: undefined })),
    ...ended.flatMap((before) => endedAccessSessions.change({ before, after: undefined })),
    ...budgets.flat(),
  ];
}

/** Returns the changes that move a session to those that have ended. */
export const endingOf = (
  { accessSessions, endedAccessSessions }: AccessSessionCollections,
  before: StoredRecordOf<AccessSession>,
  after: AccessSession,
): Change[] => [
  ...accessSessions.change({ before, after: undefined }),
  ...endedAccessSessions.change({ before: undefined, after }),
];

/** A session sees itself too: its caller has the ID of its key, and no mark. */
const isVisible = (session: AccessSession, { limits, keyId, keyMark, accessSession }: Caller): boolean =>
  limits === undefined ||
  accessSession?.id === session.id ||
  (session.createdBy === keyId && keyMarkOf(session) === keyMark);

/** The ID finds the session in memory, and says nothing of the token. */
const idOfToken = (token: string): string => digestOf(token).slice(0, 32);

/** Better to fail now than with the first request. */
async function requireConnections(
  { integrations, connections }: Pick<AccessSessionsOptions["collections"], "integrations" | "connections">,
  { environment, limits, scopes }: AccessSession,
): Promise<void> {
  // With this scope, the session itself can ask the user to connect the account.
  const mayConnect = scopes.includes(Scope.CONNECTIONS_WRITE);
  for (const { integration, id } of limits?.connections ?? []) {
    if ((await integrations.get(environment, integration)) === undefined) {
      const missing = { kind: "integration", name: integration, environment } as const;
      throw new Fault("unknown_provider_config", `there is no integration "${integration}"`, { missing });
    }
    if (id !== "" && !mayConnect && (await connections.get(environment, integration, id)) === undefined) {
      const missing = { kind: "connection", name: id, environment, integration } as const;
      throw new Fault("unknown_connection", `there is no connection "${id}" of "${integration}"`, { missing });
    }
  }
}
