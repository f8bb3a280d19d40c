import { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import type { World } from "../../../base/world.ts";
import type { Restoration, Store } from "../../../store/contract.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { integrationKey } from "../../connections/integration-name.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { GrantCount } from "../grant-count.ts";
import { type AttemptOutcome, createIntentStore, type RefreshAttempt, type SentAttempt } from "./refresh-attempt.ts";
import type { RefreshBreaker } from "./refresh-breaker.ts";
import { createResultCommit, type FindLease } from "./refresh-commit.ts";
import { createFailureNotes } from "./refresh-failure.ts";
import { keepLease, type RefreshLeaseTimes } from "./refresh-lease.ts";
import type { RefreshPace } from "./refresh-pace.ts";
import { createSuccessNotes } from "./refresh-success.ts";
import type { ReadTarget } from "./refresh-target.ts";
import { createTokenRequests } from "./refresh-token-request.ts";

/** Runs an attempt: stores the intent, requests the token, stores the result. */
export type RunAttempt = (attempt: RefreshAttempt) => Promise<AttemptOutcome>;

interface AttemptRunnerOptions {
  readonly read: ReadTarget;
  readonly findLease: FindLease;
  readonly store: Store;
  readonly health: ConnectionHealth;
  readonly tokens: TokenEndpoint;
  readonly grants: GrantCount;
  /** The backup that the store was restored from. */
  readonly restorationOf: () => Promise<Restoration | undefined>;
  readonly breaker: RefreshBreaker;
  readonly pace: RefreshPace;
  readonly times: RefreshLeaseTimes;
  /** True when running attempts must be abandoned. */
  readonly isOver: () => boolean;
  readonly world: World;
}

export function createAttemptRunner(options: AttemptRunnerOptions): RunAttempt {
  const { read, findLease, store, health, tokens, grants, breaker, pace, times, restorationOf, isOver, world } =
    options;
  const { metrics, log } = world;
  const storeIntent = createIntentStore({ store, health });
  const requestTokens = createTokenRequests({ tokens, metrics });
  const commitResult = createResultCommit({ read, findLease, store, pace, isOver, log });
  const noteFailure = createFailureNotes({ commitResult, health, grants, breaker, restorationOf, world });
  const noteSuccess = createSuccessNotes({
    read,
    findLease,
    storeIntent,
    requestTokens,
    commitResult,
    noteFailure,
    health,
    times,
    world,
  });

  async function request({ attempt, kept, intent: first }: SentAttempt): Promise<AttemptOutcome> {
    const { ref, renewal, log: writer } = attempt;
    for (let intent = first; ; ) {
      // After a pause, another process may have used the refresh token, which must not be sent twice.
      if (!(await kept.isOurs())) return "again";
      attempt.onSent();
      const mayRepeat = renewal.grant.type === "refresh_token" && intent === first;
      // A kept-alive connection may close during the request. Then the request is sent once more, over a new
      // connection.
      const answer = await requestTokens(renewal, intent.found, { mayFollow: mayRepeat });
      if (!(answer instanceof TokenFailure)) {
        breaker.noteSuccess(integrationKey(ref));
        return noteSuccess({ attempt, kept, intent }, answer, attempt.found.known.credentials);
      }
      writer.warn("the token request failed", { failure: answer.kind, code: answer.code });
      // The provider may have acted on the request. Retry at once, while it may still accept the same token.
      if (answer.kind === "uncertain" && mayRepeat) {
        const second = await storeIntent(attempt, await read(ref), { conditions: [kept.lease.fence] });
        if (second === undefined) return "again";
        intent = second;
        continue;
      }
      return noteFailure({ attempt, kept, intent }, answer);
    }
  }

  return async (attempt) => {
    const { found, free } = attempt;
    // The commit depends on the state just read: with stale state or a taken lease, the store refuses the commit.
    const intent = await storeIntent(attempt, found, { changes: free.changes });
    if (intent === undefined) return "again";
    const kept = keepLease(free.taken(intent.revision), { renewEveryMs: times.renewEveryMs, log });
    try {
      return await request({ attempt, kept, intent });
    } finally {
      await kept.end();
    }
  };
}
