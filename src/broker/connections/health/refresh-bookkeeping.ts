import { hash } from "node:crypto";
import { clone, create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { TokenFailureKind } from "../../../auth/oauth2/tokens.ts";
import {
  RefreshIntentSchema,
  type RefreshRecord,
  RefreshRecordSchema,
} from "../../../gen/latchkey/stored/v1/stored_pb.ts";

/** The result of an attempt that returned no token. */
export interface RefreshFailure {
  readonly kind: TokenFailureKind;
  /** The provider's error code, or one of ours. */
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
}

/**
 * Minimum interval of attempts because a provider refused a token, and of attempts that callers request after a
 * failure.
 */
export const coolDownMs = 30_000;
const maxBackoffMs = 3_600_000;
/** Only the operator can fix these failures, so retry soon after a possible fix. */
const maxOperatorBackoffMs = 300_000;
/** After failing for this long, retry once a day. A time, since the number of attempts depends on the callers. */
export const exhaustedAfterMs = 3 * 86_400_000;
const exhaustedBackoffMs = 86_400_000;

/** SHA-256: recognizes a token, and cannot be used in its place. */
export const tokenDigest = (token: string): Uint8Array => hash("sha256", token, "buffer");

interface RefreshStart {
  readonly attemptId: string;
  readonly token: string;
  readonly nowMs: number;
}

/** The record before a token request. */
export function afterIntent(before: RefreshRecord, { attemptId, token, nowMs }: RefreshStart): RefreshRecord {
  const after = clone(RefreshRecordSchema, before);
  const digest = tokenDigest(token);
  const open = before.intent;
  const isSame = open !== undefined && Buffer.compare(open.tokenDigest, digest) === 0;
  after.intent = create(RefreshIntentSchema, {
    attemptId,
    tokenDigest: digest,
    startedAt: timestampFromMs(nowMs),
    // An intent that is still open was never answered, or its response was never stored.
    unanswered: isSame ? open.unanswered + 1 : 0,
  });
  return after;
}

interface RefreshFailed {
  readonly failure: RefreshFailure;
  readonly nowMs: number;
  /** At least 0 and below 1. */
  readonly random: number;
  readonly logId: string;
}

/** The record after an attempt that returned no token. Keeps the time of the last success. */
export function afterFailure(before: RefreshRecord, { failure, nowMs, random, logId }: RefreshFailed): RefreshRecord {
  const after = clone(RefreshRecordSchema, before);
  const now = timestampFromMs(nowMs);
  after.failures = Math.min(before.failures + 1, maxFailures);
  after.firstFailedAt = before.firstFailedAt ?? now;
  after.lastFailedAt = now;
  after.lastFailure = failure.kind;
  after.lastCode = failure.code.slice(0, 64);
  after.logId = logId;
  if (!isOpen(failure.kind)) closeIntent(after);
  after.notBefore = timestampFromMs(nowMs + waitMs(after, { failure, nowMs, random }));
  return after;
}

/** The largest number that the record's field holds. */
const maxFailures = 0xffff_ffff;

/** The provider may have acted on the request, so the token that was sent may be used up. */
const isOpen = (kind: TokenFailureKind): boolean => kind === "uncertain" || kind === "unusable";

/** This attempt certainly had no effect. Earlier attempts with the same token may have had one. */
function closeIntent(record: RefreshRecord): void {
  const { intent } = record;
  if (intent === undefined) return;
  if (intent.unanswered === 0) delete record.intent;
  else intent.unanswered -= 1;
}

/** Failures that only the operator of the integration can fix. */
export const isForOperator = (kind: string): boolean => kind === "client_refused" || kind === "misconfigured";

interface RefreshWait {
  readonly failure: RefreshFailure;
  readonly nowMs: number;
  readonly random: number;
}

function waitMs(record: RefreshRecord, { failure: { kind, retryAfterMs = 0 }, nowMs, random }: RefreshWait): number {
  // Retry once, immediately, with the same token: servers that accept it again after a lost response do so for seconds.
  if (kind === "uncertain" && record.intent !== undefined && record.intent.unanswered === 0) return 0;
  const most = isForOperator(kind) ? maxOperatorBackoffMs : maxBackoffMs;
  const doubled = isExhausted(record, nowMs)
    ? exhaustedBackoffMs
    : Math.min(most, coolDownMs * 2 ** Math.min(record.failures - 1, 20));
  // Between half of the wait and all of it, so that connections that failed together do not retry together.
  const wait = doubled / 2 + (doubled / 2) * random;
  return Math.round(Math.max(wait, Math.min(retryAfterMs, exhaustedBackoffMs)));
}

/** Whether the refresh has failed for days on end. */
export function isExhausted({ firstFailedAt }: RefreshRecord, nowMs: number): boolean {
  return firstFailedAt !== undefined && nowMs - timestampMs(firstFailedAt) >= exhaustedAfterMs;
}

/** The record after a success: all failures are cleared. */
export const afterSuccess = (before: RefreshRecord, { nowMs, tokenClient }: RefreshSucceeded): RefreshRecord => ({
  ...newRecord(before, { grantedAt: before.grantedAt, lastSucceededAt: timestampFromMs(nowMs) }),
  // A refresh brings no further scopes.
  lackingScopes: before.lackingScopes,
  ...(tokenClient === undefined ? {} : { tokenClient }),
});

interface RefreshSucceeded {
  readonly nowMs: number;
  /** The client that obtained the new token, if the token depends on that client. */
  readonly tokenClient?: Uint8Array | undefined;
}

/**
 * The record after a replacement of the credentials. `grantedAtMs` undefined: the time of authorization is not known.
 */
export const afterReplacement = (
  before: RecordNames,
  { grantedAtMs }: { readonly grantedAtMs: number | undefined },
): RefreshRecord =>
  newRecord(before, { grantedAt: grantedAtMs === undefined ? undefined : timestampFromMs(grantedAtMs) });

type RecordNames = Pick<RefreshRecord, "environment" | "integration" | "connectionId">;
type KeptTimes = Partial<Pick<RefreshRecord, "grantedAt" | "lastSucceededAt">>;

/** Copied for each connection of an import: to create one by its description takes ten times as long. */
const emptyRecord = create(RefreshRecordSchema);

function newRecord({ environment, integration, connectionId }: RecordNames, { grantedAt, lastSucceededAt }: KeptTimes) {
  const record: RefreshRecord = { ...emptyRecord, environment, integration, connectionId, lackingScopes: [] };
  if (grantedAt !== undefined) record.grantedAt = grantedAt;
  if (lastSucceededAt !== undefined) record.lastSucceededAt = lastSucceededAt;
  return record;
}

/** Tokens with a shorter remaining lifetime on arrival expire before a caller can use them. */
const shortLifeMs = 500;
/**
 * Minimum pause between refreshes that return such short-lived tokens, or that callers request. Prevents request
 * storms.
 */
const minPauseMs = 1_000;

/** Whether these credentials arrived with almost no lifetime left; false if the time of arrival is not known. */
export function areShortLived(record: RefreshRecord | undefined, expiresAt: Timestamp | undefined): boolean {
  if (record?.lastSucceededAt === undefined || expiresAt === undefined) return false;
  return timestampMs(expiresAt) < timestampMs(record.lastSucceededAt) + shortLifeMs;
}

/** How long to delay the next refresh after a success. Callers wait for that refresh and get its result. */
export function pauseAfterSuccessMs({ failures, lastSucceededAt }: RefreshRecord, nowMs: number): number {
  if (failures > 0 || lastSucceededAt === undefined) return 0;
  const sinceMs = nowMs - timestampMs(lastSucceededAt);
  return sinceMs < 0 ? 0 : Math.max(0, minPauseMs - sinceMs);
}

/** Whether the record holds nothing worth storing. */
export const isEmptyRecord = (record: RefreshRecord) => {
  const { failures, lastSucceededAt, intent, deadReason, grantedAt, lookAt, lackingScopes } = record;
  const isWell = failures === 0 && deadReason === "" && lackingScopes.length === 0;
  const isNew = lastSucceededAt === undefined && intent === undefined && grantedAt === undefined;
  return isWell && isNew && lookAt === undefined;
};

/** Replicas' clocks differ by less than this. */
const maxSkewMs = 300_000;

/**
 * Whether a stored time is in the future, since the clock was set back. Waits counted from there would last as long.
 */
export const isAhead = (atMs: number, nowMs: number): boolean => atMs > nowMs + maxSkewMs;

interface RefreshWish {
  readonly isForced: boolean;
  readonly nowMs: number;
}

/** When the next token request is allowed; undefined: never with these credentials. */
export function nextAttemptMs(record: RefreshRecord | undefined, { isForced, nowMs }: RefreshWish): number | undefined {
  if (record === undefined) return 0;
  if (record.deadReason !== "") return undefined;
  const last = Math.max(msOf(record.lastFailedAt), msOf(record.lastSucceededAt));
  if (isAhead(last, nowMs)) return 0;
  // A forced attempt after a failure still waits for the backoff.
  return Math.max(msOf(record.notBefore), isForced && last > 0 ? last + coolDownMs : 0);
}

const msOf = (at: Timestamp | undefined): number => (at === undefined ? 0 : timestampMs(at));
