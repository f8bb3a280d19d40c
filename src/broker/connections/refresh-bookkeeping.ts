import { hash } from "node:crypto";
import { clone, create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import type { TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import {
  RefreshIntentSchema,
  type RefreshRecord,
  RefreshRecordSchema,
} from "../../gen/latchkey/stored/v1/stored_pb.ts";

/** What became of an attempt that brought no token. */
export interface RefreshFailure {
  readonly kind: TokenFailureKind;
  /** The provider's error code, or a word of ours. */
  readonly code: string;
  readonly retryAfterMs?: number | undefined;
}

/** One attempt in this time because a provider refused a token; and after a failure, one that callers ask for. */
export const coolDownMs = 30_000;
const maxBackoffMs = 3_600_000;
/** What only the operator can mend is looked at again soon after it may have been mended. */
const maxOperatorBackoffMs = 300_000;
/** Failing for this long, it is tried once a day. Counted in time: attempts are as many as there were callers. */
export const exhaustedAfterMs = 3 * 86_400_000;
const exhaustedBackoffMs = 86_400_000;

/** SHA-256: enough to know a token again, and nothing to use. */
export const tokenDigest = (token: string): Uint8Array => hash("sha256", token, "buffer");

interface RefreshStart {
  readonly attemptId: string;
  readonly token: string;
  readonly nowMs: number;
}

/** Before a token endpoint is asked. */
export function afterIntent(before: RefreshRecord, { attemptId, token, nowMs }: RefreshStart): RefreshRecord {
  const after = clone(RefreshRecordSchema, before);
  const digest = tokenDigest(token);
  const open = before.intent;
  const isSame = open !== undefined && Buffer.compare(open.tokenDigest, digest) === 0;
  after.intent = create(RefreshIntentSchema, {
    attemptId,
    tokenDigest: digest,
    startedAt: timestampFromMs(nowMs),
    // One that is still open was never answered, or its answer was never written down.
    unanswered: isSame ? open.unanswered + 1 : 0,
  });
  return after;
}

interface RefreshFailed {
  readonly failure: RefreshFailure;
  readonly nowMs: number;
  /** From 0 up to 1. */
  readonly random: number;
  readonly logId: string;
}

/** After one that brought no token. When it was last good is kept. */
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

/** As many as a number of the record holds. */
const maxFailures = 0xffff_ffff;

/** The provider may have acted on the request: the token that was sent may be spent. */
const isOpen = (kind: TokenFailureKind): boolean => kind === "uncertain" || kind === "unusable";

/** It is known that this attempt did nothing; of those before it with the same token it is not. */
function closeIntent(record: RefreshRecord): void {
  const { intent } = record;
  if (intent === undefined) return;
  if (intent.unanswered === 0) delete record.intent;
  else intent.unanswered -= 1;
}

/** Of these kinds nobody but the operator of the integration can mend anything. */
export const isForOperator = (kind: string): boolean => kind === "client_refused" || kind === "misconfigured";

interface RefreshWait {
  readonly failure: RefreshFailure;
  readonly nowMs: number;
  readonly random: number;
}

function waitMs(record: RefreshRecord, { failure: { kind, retryAfterMs = 0 }, nowMs, random }: RefreshWait): number {
  // Once, and at once, with the same token: servers that forgive a lost answer do so for seconds.
  if (kind === "uncertain" && record.intent !== undefined && record.intent.unanswered === 0) return 0;
  const most = isForOperator(kind) ? maxOperatorBackoffMs : maxBackoffMs;
  const doubled = isExhausted(record, nowMs)
    ? exhaustedBackoffMs
    : Math.min(most, coolDownMs * 2 ** Math.min(record.failures - 1, 20));
  // Between half of it and all of it, so that those who failed together do not come back together.
  const wait = doubled / 2 + (doubled / 2) * random;
  return Math.round(Math.max(wait, Math.min(retryAfterMs, exhaustedBackoffMs)));
}

/** It has failed for days on end. */
export function isExhausted({ firstFailedAt }: RefreshRecord, nowMs: number): boolean {
  return firstFailedAt !== undefined && nowMs - timestampMs(firstFailedAt) >= exhaustedAfterMs;
}

/** The credentials were renewed: whatever had gone wrong is over. */
export const afterSuccess = (before: RefreshRecord, { nowMs, tokenClient }: RefreshSucceeded): RefreshRecord => ({
  ...anew(before, { grantedAt: before.grantedAt, lastSucceededAt: timestampFromMs(nowMs) }),
  ...(tokenClient === undefined ? {} : { tokenClient }),
});

interface RefreshSucceeded {
  readonly nowMs: number;
  /** Which client the new token was obtained with, where that makes a difference. */
  readonly tokenClient?: Uint8Array | undefined;
}

/** Other credentials came in their place. `grantedAtMs` undefined: nobody knows when the end user authorised them. */
export const afterReplacement = (
  before: RefreshRecord,
  { grantedAtMs }: { readonly grantedAtMs: number | undefined },
): RefreshRecord => anew(before, { grantedAt: grantedAtMs === undefined ? undefined : timestampFromMs(grantedAtMs) });

type KeptTimes = Partial<Pick<RefreshRecord, "grantedAt" | "lastSucceededAt">>;

function anew({ environment, integration, connectionId }: RefreshRecord, { grantedAt, lastSucceededAt }: KeptTimes) {
  const record = create(RefreshRecordSchema, { environment, integration, connectionId });
  if (grantedAt !== undefined) record.grantedAt = grantedAt;
  if (lastSucceededAt !== undefined) record.lastSucceededAt = lastSucceededAt;
  return record;
}

/** Tokens with less to live when they arrive have run out by the time that a caller has used them. */
const shortLifeMs = 500;
/** Between two renewals that bring tokens of such a short life, or that callers ask for: no storm comes of either. */
const minPauseMs = 1_000;

/** Whether these credentials came with next to no time to live; false where it is not known when they came. */
export function areShortLived(record: RefreshRecord | undefined, expiresAt: Timestamp | undefined): boolean {
  if (record?.lastSucceededAt === undefined || expiresAt === undefined) return false;
  return timestampMs(expiresAt) < timestampMs(record.lastSucceededAt) + shortLifeMs;
}

/** How long the next renewal is put off after one that succeeded: callers wait for it, and get what it brings. */
export function pauseAfterSuccessMs({ failures, lastSucceededAt }: RefreshRecord, nowMs: number): number {
  if (failures > 0 || lastSucceededAt === undefined) return 0;
  const sinceMs = nowMs - timestampMs(lastSucceededAt);
  return sinceMs < 0 ? 0 : Math.max(0, minPauseMs - sinceMs);
}

/** Nothing in it is worth being kept. */
export const isEmptyRecord = ({ failures, lastSucceededAt, intent, deadReason, grantedAt, lookAt }: RefreshRecord) =>
  failures === 0 && deadReason === "" && [lastSucceededAt, intent, grantedAt, lookAt].every((one) => one === undefined);

/** Clocks of replicas differ by less. */
const maxSkewMs = 300_000;

/** Written down by a clock that has been turned back since. What was counted from there would keep for as long. */
export const isAhead = (atMs: number, nowMs: number): boolean => atMs > nowMs + maxSkewMs;

interface RefreshWish {
  readonly isForced: boolean;
  readonly nowMs: number;
}

/** When the token endpoint may be asked next; undefined: never with these credentials. */
export function nextAttemptMs(record: RefreshRecord | undefined, { isForced, nowMs }: RefreshWish): number | undefined {
  if (record === undefined) return 0;
  if (record.deadReason !== "") return undefined;
  const last = Math.max(msOf(record.lastFailedAt), msOf(record.lastSucceededAt));
  if (isAhead(last, nowMs)) return 0;
  // Whoever forces an attempt after a failure does not get past what the failures say.
  return Math.max(msOf(record.notBefore), isForced && last > 0 ? last + coolDownMs : 0);
}

const msOf = (at: Timestamp | undefined): number => (at === undefined ? 0 : timestampMs(at));
