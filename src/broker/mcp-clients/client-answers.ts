import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { digestOf } from "../../base/ids.ts";
import { type LiveMember, LiveSet } from "../../base/live-set.ts";
import type { World } from "../../base/world.ts";
import { type McpAnswer, McpAnswerSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store, type Watch } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import { partsOf } from "../../store/keys.ts";
import type { McpClientCollections } from "./mcp-client-collections.ts";

/** Passes answers of MCP clients to the process whose call has asked: the answer may come to any process. */
export interface ClientAnswers {
  /** Begins to wait for the answer to a question. Call it before the client is asked. */
  expect(question: string): Promise<ExpectedAnswer>;
  /** Passes an answer. Of several to a question, the first counts. Rejects if the store is unavailable. */
  pass(question: string, answer: string): Promise<void>;
  close(): void;
}

export interface ExpectedAnswer {
  readonly answer: Promise<string>;
  /** Ends the wait. */
  close(): void;
}

interface ClientAnswersOptions {
  readonly store: Store;
  /** Other processes use the store too. */
  readonly isShared: boolean;
  readonly collections: McpClientCollections;
  readonly world: World;
}

/** Answers that no process took are deleted after that. */
export const answerLifetimeMs = 60_000;

export function createClientAnswers({ store, isShared, collections, world }: ClientAnswersOptions): ClientAnswers {
  const { mcpAnswers } = collections;
  const waiting = new LiveSet<WaitingCall>();
  let following: Promise<Watch> | undefined;

  const waitingFor = (hash: string) => waiting.now().find((one) => one.hash === hash);

  /** Gives a stored answer to the call that waits for it, if it is one of this process. */
  function take(stored: McpAnswer | undefined, revision: number): void {
    const waits = stored && waitingFor(stored.questionHash);
    if (stored === undefined || waits === undefined) return;
    waits.resolve(stored.answer);
    const taken = mcpAnswers.change({ before: { value: stored, revision, bytes: 0 }, after: undefined });
    // The housekeeping deletes what is left.
    store.commit(taken).catch((err: unknown) => {
      if (!(err instanceof StaleWrite)) world.log.debug("an answer that was taken could not be deleted", { err });
    });
  }

  /** Most processes ask no client: the store is followed from the first question on. */
  function followed(): Promise<unknown> {
    if (!isShared) return Promise.resolve();
    following ??= follow({
      store,
      world,
      spaces: [mcpAnswers.name],
      async read() {
        const found = await mcpAnswers.getMany(waiting.now().map(({ hash }) => [hash]));
        return () => {
          for (const one of found) take(one?.value, one?.revision ?? 0);
        };
      },
      onCommit({ changes, revision }) {
        for (const change of changes) {
          const [, hash = ""] = partsOf(change.key);
          if (waitingFor(hash) !== undefined) take(mcpAnswers.read(change, revision)?.value, revision);
        }
      },
    }).catch((error: unknown) => {
      following = undefined;
      throw error;
    });
    return following;
  }

  return {
    async expect(question) {
      await followed();
      const { promise, resolve } = Promise.withResolvers<string>();
      const one: WaitingCall = { place: -1, hash: digestOf(question), resolve };
      waiting.add(one);
      return { answer: promise, close: () => void waiting.delete(one) };
    },
    async pass(question, answer) {
      const questionHash = digestOf(question);
      const here = waitingFor(questionHash);
      if (here !== undefined) return here.resolve(answer);
      if (!isShared) return;
      const createdAt = timestampFromMs(world.now());
      const after = create(McpAnswerSchema, { questionHash, answer, createdAt });
      try {
        await store.commit(mcpAnswers.change({ before: undefined, after }));
      } catch (error) {
        // There is an answer already.
        if (!(error instanceof StaleWrite)) throw error;
      }
    },
    close: () => void following?.then((watch) => watch.close()),
  };
}

interface WaitingCall extends LiveMember {
  readonly hash: string;
  readonly resolve: (answer: string) => void;
}
