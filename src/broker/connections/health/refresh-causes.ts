import { type Duration, durationMs } from "@bufbuild/protobuf/wkt";
import { OAuthApp_Publishing } from "../../../gen/latchkey/v1/integration_pb.ts";
import { type OAuth2Rules, RefreshTokenRules_Use } from "../../../gen/latchkey/v1/provider_pb.ts";

/** A grant that a provider has just refused for good, as far as it is known. Undefined values are not known. */
export interface DeadGrant {
  readonly rules: OAuth2Rules | undefined;
  readonly publishing: OAuthApp_Publishing;
  /** The granted scopes, or else the requested ones. */
  readonly scopes: readonly string[];
  readonly grantedAtMs: number | undefined;
  readonly lastRenewedAtMs: number | undefined;
  readonly nowMs: number;
  /** The provider's error code. */
  readonly code: string;
  /** An earlier attempt with the same token was sent, and its response never arrived. */
  readonly isAnswerLost: boolean;
  /** The number of live grants of the same account and client. */
  readonly liveGrants?: number | undefined;
  /** The store was restored from a backup, and the refresh token came from that backup. */
  readonly restored?: { readonly backupAtMs: number; readonly restoredAtMs: number } | undefined;
}

/** A possible cause of a dead grant. */
export interface RefreshCause {
  /** The `state_reason` for programs, if this cause is the likely one. */
  readonly code: string;
  /** The explanation for people: what happened, and what to do. */
  readonly text: string;
  /** Evidence points to this cause; the other causes are merely possible. */
  readonly isLikely: boolean;
}

/** Tolerance for a provider that enforces a limit late, and for clocks that differ. */
const slackMs = 86_400_000;

/** Returns every cause that fits the known facts, the likeliest first. */
export function refreshCauses(grant: DeadGrant): RefreshCause[] {
  const all = rules.flatMap((rule) => rule(grant) ?? []);
  return [...all.filter(({ isLikely }) => isLikely), ...all.filter(({ isLikely }) => !isLikely)];
}

/** The code of the likeliest cause; `invalid_grant` if no evidence points to a cause. */
export function reasonOf(causes: readonly RefreshCause[]): string {
  const [first] = causes;
  return first?.isLikely === true ? first.code : "invalid_grant";
}

type Rule = (grant: DeadGrant) => RefreshCause | undefined;

/** In order of precedence when several causes are likely. */
const rules: readonly Rule[] = [
  ({ restored, rules }) => {
    if (restored === undefined) return undefined;
    const [backup, restore] = [restored.backupAtMs, restored.restoredAtMs].map((ms) => new Date(ms).toISOString());
    const text = `the store was restored on ${restore} from a backup of ${backup}, and these credentials were not refreshed since: a refresh after the backup may have replaced the refresh token`;
    return {
      ...possible("restored_backup", text),
      isLikely: rules?.refreshTokens?.use !== RefreshTokenRules_Use.KEEPS,
    };
  },
  ({ isAnswerLost, rules }) =>
    isAnswerLost && rules?.refreshTokens?.use !== RefreshTokenRules_Use.KEEPS
      ? likely(
          "rotation_response_lost",
          "an earlier refresh was sent and its response never arrived: the provider replaced the refresh token, and the new one was in that response",
        )
      : undefined,
  (grant) => {
    const isSaid = /revoke|access_denied|consent_required|token_inactive/i.test(grant.code);
    return { ...possible("revoked", "the end user, or an administrator, revoked the access"), isLikely: isSaid };
  },
  testingEnded,
  ({ rules, nowMs, ...grant }) => {
    const { lifetime, use } = rules?.refreshTokens ?? {};
    // If each use returns a new refresh token, each one starts a new lifetime.
    const issued =
      use === RefreshTokenRules_Use.ROTATES ? (grant.lastRenewedAtMs ?? grant.grantedAtMs) : grant.grantedAtMs;
    return byAge(lifetime, issued, {
      nowMs,
      code: "grant_expired",
      text: (days) => `refresh tokens of this provider expire ${days} after they are issued`,
    });
  },
  ({ rules, nowMs, grantedAtMs, lastRenewedAtMs }) =>
    byAge(rules?.refreshTokens?.idleLifetime, lastRenewedAtMs ?? grantedAtMs, {
      nowMs,
      code: "idle_too_long",
      text: (days) => `refresh tokens of this provider expire when they are not used for ${days}`,
    }),
  ({ rules, liveGrants }) => {
    const most = rules?.refreshTokens?.maxPerAccount ?? 0;
    if (most === 0) return undefined;
    const text = `one account may have ${most} live refresh tokens of one client: with one more, the oldest silently stops working; revoke the ones that are not needed`;
    return { ...possible("too_many_grants", text), isLikely: liveGrants !== undefined && liveGrants >= most };
  },
  ({ rules }) =>
    rules?.refreshTokens?.use === RefreshTokenRules_Use.ROTATES
      ? possible(
          "used_elsewhere",
          "another party used the same refresh token, which is valid once: the system that it was imported from, or a restored backup",
        )
      : undefined,
  ({ scopes }) =>
    scopes.some(isMailScope)
      ? possible("password_changed", "the end user changed the password while the access covered mail")
      : undefined,
  ({ rules }) =>
    rules === undefined
      ? undefined
      : possible("time_limit", "the end user gave access for a limited time, which has passed"),
  ({ rules, code }) =>
    rules === undefined
      ? undefined
      : {
          ...possible("restricted_by_administrator", "an administrator restricted a requested service"),
          isLikely: /admin_policy/i.test(code),
        },
  ({ rules, code }) =>
    rules === undefined
      ? undefined
      : {
          ...possible("session_expired", "the session length that the administrator allows has passed"),
          isLikely: /invalid_rapt|interaction_required|session_expired/i.test(code),
        },
];

const likely = (code: string, text: string): RefreshCause => ({ code, text, isLikely: true });
const possible = (code: string, text: string): RefreshCause => ({ code, text, isLikely: false });

/** Matches scopes such as `gmail.readonly`, `Mail.Read` and `https://mail.example.com/`; `email` is only an address. */
const isMailScope = (scope: string): boolean => /(?:^|[^a-z])g?mail/i.test(scope);

function testingEnded(grant: DeadGrant): RefreshCause | undefined {
  const { rules, publishing, scopes, grantedAtMs, lastRenewedAtMs, nowMs } = grant;
  const { testingLifetime, testingExemptScopes = [] } = rules?.refreshTokens ?? {};
  if (testingLifetime === undefined || publishing === OAuthApp_Publishing.PRODUCTION) return undefined;
  if (scopes.length > 0 && scopes.every((scope) => testingExemptScopes.includes(scope))) return undefined;
  const lifetimeMs = durationMs(testingLifetime);
  if (grantedAtMs !== undefined) {
    const lived = (lastRenewedAtMs ?? grantedAtMs) - grantedAtMs;
    if (nowMs - grantedAtMs < lifetimeMs - slackMs || lived > lifetimeMs + slackMs) return undefined;
  }
  const text = `while the app is in testing, refresh tokens expire ${daysOf(lifetimeMs)} after they were issued: publish the app, then set publishing to production`;
  // The grant's age is the evidence if the integration does not state that the app is in testing.
  const isLikely = publishing === OAuthApp_Publishing.TESTING || grantedAtMs !== undefined;
  return { code: "testing_grant_expired", text, isLikely };
}

interface AgeRule {
  readonly nowMs: number;
  readonly code: string;
  readonly text: (days: string) => string;
}

function byAge(limit: Duration | undefined, sinceMs: number | undefined, { nowMs, code, text }: AgeRule) {
  if (limit === undefined) return undefined;
  const limitMs = durationMs(limit);
  const cause = possible(code, text(daysOf(limitMs)));
  if (sinceMs === undefined) return cause;
  return nowMs - sinceMs < limitMs - slackMs ? undefined : { ...cause, isLikely: true };
}

function daysOf(ms: number): string {
  const days = Math.round(ms / 86_400_000);
  return days === 1 ? "1 day" : `${days} days`;
}
