import { create } from "@bufbuild/protobuf";
import { refreshedCredentials, tokenRefreshOf } from "../../../auth/credential-refresh.ts";
import { TokenFailure, type Tokens } from "../../../auth/oauth2/tokens.ts";
import type { World } from "../../../base/world.ts";
import { missingScopes } from "../../../core/granted-scopes.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { tokenClient } from "../token-client.ts";
import type { AttemptOutcome, RefreshAttempt, SentAttempt, StoreIntent } from "./refresh-attempt.ts";
import type { CommitResult, FindLease } from "./refresh-commit.ts";
import type { NoteFailure } from "./refresh-failure.ts";
import { keepLease, type RefreshLeaseTimes } from "./refresh-lease.ts";
import { hasCredentials, logFieldsOf, type ReadTarget, type RefreshTarget } from "./refresh-target.ts";
import type { RequestTokens } from "./refresh-token-request.ts";

/**
 * Stores new tokens, which replace the `base` credentials. Nothing may delay this commit, and while the store refuses,
 * it is retried.
 */
export type NoteSuccess = (sent: SentAttempt, tokens: Tokens, base: Credentials) => Promise<AttemptOutcome>;

interface SuccessNotesOptions {
  readonly read: ReadTarget;
  readonly findLease: FindLease;
  readonly storeIntent: StoreIntent;
  readonly requestTokens: RequestTokens;
  readonly commitResult: CommitResult;
  readonly noteFailure: NoteFailure;
  readonly health: ConnectionHealth;
  readonly times: RefreshLeaseTimes;
  readonly world: World;
}

export function createSuccessNotes(options: SuccessNotesOptions): NoteSuccess {
  const { read, findLease, storeIntent, requestTokens, commitResult, noteFailure, health, times, world } = options;
  const { metrics, log } = world;
  const count = (outcome: string) => metrics.refreshes.inc({ outcome });

  async function noteSuccess(sent: SentAttempt, tokens: Tokens, base: Credentials): Promise<AttemptOutcome> {
    const { intent, attempt } = sent;
    const { ref, log: writer, isForced: isAskedFor } = attempt;
    const { further } = attempt.renewal;
    const credentials = create(CredentialsSchema, { kind: refreshedCredentials(base, tokens, further) });
    const decide = ({ known, integration, provider }: RefreshTarget) => {
      if (further !== undefined) return health.noteFurther(known, { credentials });
      const patch = patchOf(known.connection.value, tokens);
      const own = tokenClient({ ...intent.found, credentials });
      return health.noteSuccess(known, {
        credentials,
        integration,
        provider,
        log: writer,
        isAskedFor,
        patch,
        tokenClient: own,
      });
    };
    const outcome = await commitResult(sent, decide, credentials);
    if (outcome === "refused") return confirmLate(attempt, credentials);
    count(outcome === "written" ? "renewed" : "overtaken");
    if (outcome === "written") return "done";
    log.info("refreshed credentials dropped: newer ones were stored", logFieldsOf(ref));
    return "again";
  }

  /**
   * Handles a late success: this process was paused during its request, and another one was refused with the same
   * refresh token. The provider may have revoked everything from that token, or the late response may be the valid one.
   * Only a refresh with the late response's own token can tell, so nothing is reported before.
   */
  async function confirmLate(attempt: RefreshAttempt, late: Credentials): Promise<AttemptOutcome> {
    const { ref, log: writer } = attempt;
    const found = await read(ref);
    const renewal = tokenRefreshOf({ ...found, credentials: late });
    const free = await findLease(ref);
    const isOpen = hasCredentials(found, attempt.found.known.credentials) && free !== undefined;
    const now = { ...attempt, found, renewal: renewal ?? attempt.renewal };
    const isNewer = renewal !== undefined && renewal.spent !== attempt.renewal.spent;
    const intent = isOpen && isNewer ? await storeIntent(now, found, { changes: free.changes }) : undefined;
    if (!isOpen || !isNewer || intent === undefined) {
      count("overtaken");
      log.info("refreshed credentials dropped: the provider has since refused their grant", logFieldsOf(ref));
      return "again";
    }
    writer.warn("another process was refused with the same refresh token; trying the token of the late response");
    const kept = keepLease(free.taken(intent.revision), { renewEveryMs: times.renewEveryMs, log });
    try {
      const answer = await requestTokens(now.renewal, found, { mayFollow: false });
      if (!(answer instanceof TokenFailure)) return await noteSuccess({ attempt: now, kept, intent }, answer, late);
      writer.warn("the token request failed", { failure: answer.kind, code: answer.code });
      return await noteFailure({ attempt: now, kept, intent }, answer);
    } finally {
      await kept.end();
    }
  }

  return noteSuccess;
}

/** Other changes of the connection that the response reports. */
function patchOf({ connectionConfig, metadata, grantedScopes, missingScopes: lacked }: Connection, tokens: Tokens) {
  return {
    ...(tokens.scopes === undefined
      ? {}
      : {
          grantedScopes: [...tokens.scopes],
          missingScopes: missingScopes([...grantedScopes, ...lacked], tokens.scopes),
        }),
    ...(isEmpty(tokens.connectionConfig)
      ? {}
      : { connectionConfig: { ...connectionConfig, ...tokens.connectionConfig } }),
    ...(isEmpty(tokens.metadata) ? {} : { metadata: { ...metadata, ...tokens.metadata } }),
  };
}

const isEmpty = (fields: Readonly<Record<string, unknown>>): boolean => Object.keys(fields).length === 0;
