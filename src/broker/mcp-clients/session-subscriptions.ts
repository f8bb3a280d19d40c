import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import { type LiveMember, LiveSet } from "../../base/live-set.ts";
import type { World } from "../../base/world.ts";
import {
  type McpSubscription,
  McpSubscriptionSchema,
  McpSubscriptionsSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store, type Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { keyOf } from "../../store/keys.ts";
import type { McpClientCollections } from "./mcp-client-collections.ts";

/** The resources that sessions of MCP clients follow, for all processes: the stream may be open at another one. */
export interface SessionSubscriptions {
  /** Rejects if the session, or its caller, follows too much. */
  add(session: ClientSession, uri: string): Promise<void>;
  remove(session: ClientSession, uri: string): Promise<void>;
  /** Follows what a session follows, while its stream is open. */
  follow(session: ClientSession): Promise<FollowedSession>;
  close(): void;
}

/** A session by its names, which are stored as hashes. */
export interface ClientSession {
  readonly caller: string;
  readonly session: string;
}

export interface FollowedUri {
  readonly uri: string;
  /** Revision of the store by which the session had subscribed. */
  readonly since: number;
}

export interface FollowedSession {
  /** Returns what the session follows if that is something else than at the last call; undefined: it is the same. */
  taken(): Promise<readonly FollowedUri[] | undefined>;
  close(): void;
}

interface SessionSubscriptionsOptions {
  readonly store: Store;
  readonly collections: McpClientCollections;
  readonly world: World;
}

/** A client that opens no stream for so long has left. */
export const subscriptionLifetimeMs = 24 * 3_600_000;
const touchAfterMs = 3_600_000;
const maxUris = 50;
const maxSessions = 100;
const maxTries = 10;

export function createSessionSubscriptions(options: SessionSubscriptionsOptions): SessionSubscriptions {
  const { store, collections, world } = options;
  const { mcpSubscriptions } = collections;
  const streams = new LiveSet<SessionStream>();
  let following: Promise<Watch> | undefined;

  async function requireRoom(callerHash: string): Promise<void> {
    const sessions = await mcpSubscriptions.page({ under: [callerHash], limit: maxSessions });
    if (sessions.length < maxSessions) return;
    throw new Fault("too_many_requests", `at most ${maxSessions} sessions of a caller may follow resources`);
  }

  /** Stores what `next` makes of the subscriptions, which may be the same. */
  async function change(session: ClientSession, next: (before: Subscriptions) => Subscriptions): Promise<void> {
    const { callerHash, sessionHash } = hashesOf(session);
    for (let i = 0; i < maxTries; i += 1) {
      const before = await mcpSubscriptions.get(callerHash, sessionHash);
      const subscriptions = [...next(before?.value.subscriptions ?? [])];
      if (before === undefined && subscriptions.length === 0) return;
      if (before === undefined) await requireRoom(callerHash);
      const createdAt = timestampFromMs(world.now());
      const after =
        subscriptions.length === 0
          ? undefined
          : create(McpSubscriptionsSchema, { callerHash, sessionHash, subscriptions, createdAt });
      try {
        await store.commit(mcpSubscriptions.change({ before, after }));
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
    throw new Fault("conflict", "the subscriptions of this session change all the time; try again");
  }

  /** Most processes have no such stream: the store is followed from the first one on. */
  function followed(): Promise<unknown> {
    following ??= follow({
      store,
      world,
      spaces: [mcpSubscriptions.name],
      read: async () => () => {
        for (const one of streams.now()) one.isChanged = true;
      },
      onCommit({ changes }) {
        for (const { key } of changes) {
          for (const one of streams.now()) if (one.key === key) one.isChanged = true;
        }
      },
    }).catch((error: unknown) => {
      following = undefined;
      throw error;
    });
    return following;
  }

  return {
    add: (session, uri) =>
      change(session, (before) => {
        if (before.some((one) => one.uri === uri)) return before;
        if (before.length >= maxUris) {
          throw new Fault("too_many_requests", `a session follows at most ${maxUris} resources`);
        }
        const since = BigInt(store.status().revision);
        return [...before, create(McpSubscriptionSchema, { uri, since })];
      }),
    remove: (session, uri) => change(session, (before) => before.filter((one) => one.uri !== uri)),
    async follow(session) {
      await followed();
      const { callerHash, sessionHash } = hashesOf(session);
      const key = keyOf(mcpSubscriptions.name, callerHash, sessionHash);
      const one: SessionStream = { place: -1, key, isChanged: true };
      const found = await mcpSubscriptions.get(callerHash, sessionHash);
      const usedAt = found?.value.createdAt;
      if (usedAt !== undefined && timestampMs(usedAt) + touchAfterMs <= world.now()) {
        await change(session, (before) => before);
      }
      streams.add(one);
      return {
        async taken() {
          if (!one.isChanged) return undefined;
          one.isChanged = false;
          const { subscriptions } = (await mcpSubscriptions.get(callerHash, sessionHash))?.value ?? {
            subscriptions: [],
          };
          return subscriptions.map(({ uri, since }) => ({ uri, since: Number(since) }));
        },
        close: () => void streams.delete(one),
      };
    },
    close: () => void following?.then((watch) => watch.close()),
  };
}

type Subscriptions = readonly McpSubscription[];

interface SessionStream extends LiveMember {
  readonly key: string;
  isChanged: boolean;
}

const hashesOf = ({ caller, session }: ClientSession) => ({
  callerHash: digestOf(caller),
  sessionHash: digestOf(session),
});
