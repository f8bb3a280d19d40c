import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { RefreshFailure } from "./refresh-bookkeeping.ts";
import type { RefreshCause } from "./refresh-causes.ts";

// Last lines of refresh logs. Codes and times are their only values from outside.

/** Lines for a dead grant: the failure, and its possible causes. */
export function deathLines(
  causes: readonly RefreshCause[],
  { lastCode, grantedAt, lastSucceededAt, deadReason }: RefreshRecord,
) {
  const known = { code: lastCode, granted_at: msIn(grantedAt), last_succeeded_at: msIn(lastSucceededAt) };
  return [
    {
      level: "error",
      sentence: "the provider no longer accepts the refresh token: the end user must authorize again",
      fields: { reason: deadReason, ...known },
    },
    ...causes.map(
      ({ code, text, isLikely }) =>
        ({
          level: isLikely ? "warn" : "info",
          sentence: isLikely ? "likely cause" : "possible cause",
          fields: { cause: code, detail: text },
        }) as const,
    ),
  ] as const;
}

/** Lines for a temporary failure. */
export function failureLines(
  { failures, firstFailedAt, notBefore }: RefreshRecord,
  { kind, code, retryAfterMs }: RefreshFailure,
) {
  const fields = {
    failure: kind,
    code,
    failures,
    failing_since: msIn(firstFailedAt),
    next_attempt_at: msIn(notBefore),
    retry_after_ms: retryAfterMs,
  };
  return [{ level: "warn", sentence: "the credentials could not be refreshed; retrying later", fields }] as const;
}

export const recoveryLine = ({ failures, firstFailedAt }: RefreshRecord) =>
  ({
    level: "info",
    sentence: "the credentials are refreshed again",
    fields: { failures, failing_since: msIn(firstFailedAt) },
  }) as const;

/** The time in milliseconds, as logs show times. */
export const msIn = (at: RefreshRecord["grantedAt"]): number | undefined =>
  at === undefined ? undefined : timestampMs(at);
