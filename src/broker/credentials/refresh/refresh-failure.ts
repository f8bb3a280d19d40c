import { withDeadToken } from "../../../auth/oauth2/further-tokens.ts";
import type { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import type { World } from "../../../base/world.ts";
import type { Restoration } from "../../../store/contract.ts";
import type { ConnectionHealth } from "../../connections/health/health.ts";
import { isForOperator } from "../../connections/health/refresh-bookkeeping.ts";
import { integrationKey } from "../../connections/integration-name.ts";
import type { GrantCount } from "../grant-count.ts";
import type { SentAttempt } from "./refresh-attempt.ts";
import type { RefreshBreaker } from "./refresh-breaker.ts";
import type { CommitResult } from "./refresh-commit.ts";
import { misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import { logFieldsOf } from "./refresh-target.ts";

/** Stores a failure and rejects with the callers' error. `again`: the failure is older than the current state. */
export type NoteFailure = (sent: SentAttempt, failure: TokenFailure) => Promise<"again">;

interface FailureNotesOptions {
  readonly commitResult: CommitResult;
  readonly health: ConnectionHealth;
  readonly grants: GrantCount;
  readonly breaker: RefreshBreaker;
  /** The backup that the store was restored from. */
  readonly restorationOf: () => Promise<Restoration | undefined>;
  readonly world: World;
}

/** Our own codes, for requests that could not even be made: they do not apply to the integration's other connections. */
const codesOfOneConnection = new Set(["address_unbound", "client_unusable"]);

export function createFailureNotes(options: FailureNotesOptions): NoteFailure {
  const { commitResult, health, grants, breaker, restorationOf, world } = options;
  const { metrics, log } = world;

  return async (sent, failure) => {
    const { ref, log: writer } = sent.attempt;
    const { kind, code, retryAfterMs } = failure;
    const { further } = sent.attempt.renewal;
    let reason = code;
    const outcome = await commitResult(sent, async ({ known, integration, provider }) => {
      // Only this token has ended: the connection goes on with the others.
      if (further !== undefined) {
        const ended = writer.end({ failed: true, last: [] });
        const credentials = kind === "grant_dead" ? withDeadToken(known.credentials, further, code) : undefined;
        return health.noteFurther(known, { credentials, changes: ended.changes() });
      }
      // The count includes this connection, whose grant was found dead only now.
      const liveGrants = kind === "grant_dead" ? await grants.count(known.connection.value, provider) : undefined;
      const restoration = kind === "grant_dead" ? await restorationOf() : undefined;
      const noted = health.noteFailure(known, {
        failure,
        log: writer,
        integration,
        provider,
        restoration,
        ...(liveGrants !== undefined && { liveGrants }),
      });
      reason = noted.record?.deadReason || code;
      return noted;
    });
    // Other credentials were stored, or a newer attempt was refused: this failure does not apply to the current state.
    if (outcome !== "written") {
      metrics.refreshes.inc({ outcome: "overtaken" });
      return "again";
    }
    if (!codesOfOneConnection.has(code)) {
      const failed = { kind, code, retryAfterMs, nowMs: world.now(), random: Math.random() };
      breaker.noteFailure(integrationKey(ref), failed);
    }
    metrics.refreshes.inc({ outcome: kind });
    if (kind === "grant_dead") {
      log.warn("a connection must be authorized again", { ...logFieldsOf(ref), code, reason, log_id: writer.id });
      throw reauthorize(ref, reason);
    }
    if (isForOperator(kind)) {
      log.error("the provider refuses an integration's OAuth client; its connections cannot be refreshed", {
        environment: ref.environment,
        integration: ref.integration,
        code,
        log_id: writer.id,
      });
      throw misconfigured(code);
    }
    throw unavailable(`the last refresh failed (${code})`, Math.max(1, (retryAfterMs ?? 0) / 1_000));
  };
}
