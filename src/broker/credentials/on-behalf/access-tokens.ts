import { TokenFailure, type Tokens } from "../../../auth/oauth2/tokens.ts";
import { createLateCache } from "../../../base/caches/late-cache.ts";
import type { World } from "../../../base/world.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import { accessTokenFor, faultOfExchange } from "./exchanges.ts";
import { type SubjectAccess, type SubjectCall, SubjectConnection } from "./subject-connection.ts";
import type { Subject } from "./subject-tokens.ts";

/** Access tokens of users, in memory only. */
export interface AccessTokens {
  /** Returns the token for this key, if it is still used. */
  known(key: string): HeldAccess | undefined;
  drop(key: string): void;
  /** Obtains a token. Calls for one user and one purpose share an exchange. Rejects with a Fault. */
  obtain(call: SubjectCall, options?: { readonly isReplacement: boolean }): Promise<HeldAccess>;
}

export interface HeldAccess {
  readonly token: SubjectAccess;
  readonly untilMs: number;
  readonly obtainedAtMs: number;
  /** Obtained because the provider had refused the one before. */
  readonly isReplacement: boolean;
  live: SubjectConnection;
}

interface AccessTokensOptions {
  readonly endpoint: Pick<TokenEndpoint, "ask">;
  readonly world: World;
}

interface PendingExchange {
  readonly digest: string;
  readonly access: Promise<HeldAccess>;
}

const maxTokens = 10_000;
/** Longest use of an access token: the identity provider's decisions about a user take effect by then. */
const maxUseMs = 3_600_000;
/** Longest use of an access token without a stated lifetime. */
const unstatedUseMs = 300_000;
/** The same token is not sent again for so long after a refusal or a failure. */
const refusedForMs = 5_000;
const failedForMs = 1_000;

export function createAccessTokens({ endpoint, world }: AccessTokensOptions): AccessTokens {
  const cache = createLateCache<HeldAccess>({ max: maxTokens, dispose: ({ live }) => live.slot.leave() });
  /** Exchanges under way. */
  const pending = new Map<string, PendingExchange>();
  /** Failures by user and token. */
  const failures = createLateCache<TokenFailure>({ max: maxTokens });

  function noteFailure({ base }: SubjectCall, failureKey: string, failure: TokenFailure): void {
    const { status } = faultOfExchange(failure);
    failures.set(failureKey, failure, { ttl: status === 503 ? failedForMs : refusedForMs });
    const { environment, key: integration, provider } = base.integration;
    const { code } = failure;
    world.log.warn("could not obtain an access token for a user", { environment, integration, provider, code });
  }

  async function exchange(call: SubjectCall, isReplacement: boolean): Promise<HeldAccess> {
    const { key, settings, subject, subjectToken } = call;
    const failureKey = key + subject.digest;
    const failed = failures.get(failureKey);
    if (failed !== undefined) throw faultOfExchange(failed);
    let token: Tokens;
    try {
      token = await accessTokenFor(subjectToken, settings, endpoint);
    } catch (error) {
      if (!(error instanceof TokenFailure)) throw error;
      noteFailure(call, failureKey, error);
      throw faultOfExchange(error);
    }
    const obtainedAtMs = world.now();
    const untilMs = endOf(token, subject, obtainedAtMs);
    const access = { token, untilMs, obtainedAtMs, isReplacement, live: new SubjectConnection(call, token) };
    cache.set(key, access);
    return access;
  }

  async function obtain(call: SubjectCall, { isReplacement } = { isReplacement: false }): Promise<HeldAccess> {
    const { key, subject } = call;
    const running = pending.get(key);
    if (running !== undefined) {
      // Another token of the same user may be accepted where that one is not.
      return running.digest === subject.digest ? running.access : running.access.catch(() => obtain(call));
    }
    const access = exchange(call, isReplacement).finally(() => pending.delete(key));
    pending.set(key, { digest: subject.digest, access });
    return access;
  }

  return {
    known(key) {
      const access = cache.get(key);
      return access !== undefined && access.untilMs > world.now() ? access : undefined;
    },
    drop: (key) => void cache.delete(key),
    obtain,
  };
}

/** Returns when an access token is obtained again: before its end, which may arrive earlier at the provider. */
function endOf({ expiresAtMs }: Tokens, subject: Subject, nowMs: number): number {
  if (expiresAtMs === undefined) return Math.min(nowMs + unstatedUseMs, subject.endsAtMs);
  const marginMs = Math.min(30_000, Math.max(0, expiresAtMs - nowMs) / 10);
  return Math.min(expiresAtMs - marginMs, nowMs + maxUseMs);
}
