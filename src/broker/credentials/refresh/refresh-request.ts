import { timestampMs } from "@bufbuild/protobuf/wkt";
import { credentialsExpireAt } from "../../../auth/credential-life.ts";
import { tokenRefreshOf } from "../../../auth/credential-refresh.ts";
import { furtherTokenOf } from "../../../auth/oauth2/further-tokens.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../../gen/latchkey/v1/credentials_pb.ts";
import {
  areShortLived,
  coolDownMs,
  isForOperator,
  nextAttemptMs,
  pauseAfterSuccessMs,
} from "../../connections/health/refresh-bookkeeping.ts";
import { misconfigured, reauthorize, unavailable } from "./refresh-faults.ts";
import { hasCredentials, type RefreshTarget } from "./refresh-target.ts";

/** A caller's request to refresh a connection. */
export interface RefreshRequest {
  /** The caller's credentials. Compared by value: re-sealing rewrites equal ones. */
  readonly seen: Credentials;
  readonly why: RefreshReason;
  /** The further token to refresh; undefined: the main one. */
  readonly token?: string | undefined;
}

/**
 * `due`: the credentials have expired, or nearly. `requested`: a caller wants new ones now. `refused`: the provider
 * refused the credentials. A `refused` refresh runs at most once in 30 s, since the provider may refuse the next ones
 * too.
 */
export type RefreshReason = "due" | "requested" | "refused";

/** Whether the stored credentials already answer the request, without a refresh. */
export const isAnswered = (target: RefreshTarget, { seen, why, token }: RefreshRequest, nowMs: number): boolean =>
  !hasCredentials(target, seen) || (why === "refused" && token === undefined && isCoolingDown(target, nowMs));

/** Whether the current credentials replaced ones that were refused to another caller a moment ago. */
function isCoolingDown({ known: { record } }: RefreshTarget, nowMs: number): boolean {
  if (record === undefined || record.value.failures > 0 || record.value.lastSucceededAt === undefined) return false;
  const gotAt = timestampMs(record.value.lastSucceededAt);
  return nowMs >= gotAt && nowMs < gotAt + coolDownMs;
}

interface RefreshCheck {
  readonly ref: ConnectionRef;
  readonly target: RefreshTarget;
  readonly why: RefreshReason;
  readonly token?: string | undefined;
  readonly nowMs: number;
}

/** Throws the caller's error if the provider should not be asked now. */
export function requireRefreshable({ ref, target, why, token, nowMs }: RefreshCheck): void {
  const { known, integration, provider } = target;
  const { credentials } = known;
  if (token !== undefined) {
    if (tokenRefreshOf({ credentials, provider, integration }, token) !== undefined) return;
    throw reauthorize(ref, furtherTokenOf(credentials, token)?.deadReason || "credentials_expired");
  }
  const record = known.record?.value;
  const isForced = why === "refused" || (why === "requested" && record !== undefined && record.failures > 0);
  if (record !== undefined && record.deadReason !== "") throw reauthorize(ref, record.deadReason);
  if (tokenRefreshOf({ credentials, provider, integration }) === undefined)
    throw reauthorize(ref, "credentials_expired");
  const due = nextAttemptMs(record, { isForced, nowMs });
  if (record === undefined || due === undefined || due <= nowMs) return;
  if (isForOperator(record.lastFailure)) {
    // The integration was changed after the refusal, probably to fix it, so callers need not wait.
    const changedAt = integration.updatedAt === undefined ? 0 : timestampMs(integration.updatedAt);
    if (record.lastFailedAt !== undefined && changedAt > timestampMs(record.lastFailedAt)) return;
    throw misconfigured(record.lastCode);
  }
  const lastFailure =
    record.failures === 0 ? "they were refreshed a moment ago" : `the last refresh failed (${record.lastCode})`;
  throw unavailable(lastFailure, (due - nowMs) / 1_000);
}

/** Limits how soon a refresh may follow another: only if new tokens expire at once, or a caller asks in a loop. */
export function pauseBeforeMs({ target: { known }, why, token, nowMs }: Omit<RefreshCheck, "ref">): number {
  const { record, credentials } = known;
  if (record === undefined || token !== undefined) return 0;
  const isLimited = why === "requested" || areShortLived(record.value, credentialsExpireAt(credentials));
  return isLimited ? pauseAfterSuccessMs(record.value, nowMs) : 0;
}
