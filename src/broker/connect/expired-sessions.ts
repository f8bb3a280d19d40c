import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { PendingAuthorization } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { partsOf, under } from "../../store/keys.ts";
import type { Records } from "../../store/records.ts";
import { answerLifetimeMs } from "../mcp-clients/client-answers.ts";
import type { McpClientCollections } from "../mcp-clients/mcp-client-collections.ts";
import { subscriptionLifetimeMs } from "../mcp-clients/session-subscriptions.ts";
import { browserSessionLifetimeMs } from "../sign-in/known-browsers.ts";
import type { SignInCollections } from "../sign-in/sign-in-collections.ts";
import { signInLinkLifetimeMs } from "../sign-in/sign-in-links.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";
import { deviceKeptMs, pendingLifetimeMs } from "./authorize/pending-authorizations.ts";
import { outcomeLifetimeMs } from "./outcomes.ts";
import { sessionLifetimeMs } from "./sessions.ts";

interface ConnectSweepOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections & SignInCollections & McpClientCollections;
  readonly world: World;
}

/** Limit for one commit; the next commit deletes the rest. */
const perCommit = 500;
const commitsPerSweep = 20;

/** Deletes expired sessions, abandoned authorizations and sign-ins, and what MCP clients left. */
export function createConnectSweep({
  store,
  collections,
  world,
}: ConnectSweepOptions): (signal: AbortSignal) => Promise<void> {
  const { connectSessions, pendingAuthorizations, pendingChoices, pendingDevices, connectOutcomes } = collections;
  const { browserSessions, signInLinks, pendingSignIns, mcpAnswers, mcpSubscriptions } = collections;

  async function outdated(): Promise<Change[]> {
    return [
      ...(await olderThan(sessionLifetimeMs, connectSessions)),
      ...(await olderThan(pendingLifetimeMs, pendingAuthorizations, isUnclaimed)),
      ...(await olderThan(pendingLifetimeMs, pendingChoices)),
      ...(await olderThan(deviceKeptMs, pendingDevices)),
      ...(await olderThan(outcomeLifetimeMs, connectOutcomes)),
      ...(await olderThan(answerLifetimeMs, mcpAnswers)),
      ...(await olderThan(subscriptionLifetimeMs, mcpSubscriptions)),
      ...(await olderThan(browserSessionLifetimeMs, browserSessions)),
      ...(await olderThan(signInLinkLifetimeMs, signInLinks)),
      ...(await olderThan(pendingLifetimeMs, pendingSignIns)),
    ];
  }

  async function olderThan<T extends DatedRecord>(
    lifetimeMs: number,
    records: Records<T>,
    isWanted: (value: T) => boolean = () => true,
  ): Promise<Change[]> {
    const keys = await store.list({ ...under(`${records.name}.age`), limit: perCommit });
    // Key parts: the space, the time, and the key of the record itself.
    const found = await records.getMany(keys.map(({ key }) => partsOf(key).slice(2)));
    const oldest = found.filter((one) => one !== undefined).filter(({ value }) => isWanted(value));
    return oldest
      .filter(
        ({ value: { createdAt } }) => createdAt === undefined || timestampMs(createdAt) + lifetimeMs <= world.now(),
      )
      .flatMap((before) => records.change({ before, after: undefined }));
  }

  return async (signal) => {
    for (let i = 0; i < commitsPerSweep && !signal.aborted; i += 1) {
      const changes = await outdated();
      if (changes.length === 0) return;
      await store.commit(changes);
    }
  };
}

/** Interrupted authorizations are told before they are deleted. */
const isUnclaimed = ({ claimedAt }: PendingAuthorization): boolean => claimedAt === undefined;

interface DatedRecord {
  readonly createdAt?: Timestamp | undefined;
}
