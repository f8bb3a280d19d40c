import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { refuseOAuth } from "../call.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient } from "./clients.ts";
import { maxTokens, newToken, type SandboxGrant } from "./grants.ts";

/** Refresh tokens: rotation, the grace period of a replaced token, and the limit per user and client. */
export interface RefreshTokens {
  /** Issues the first refresh token of a grant, and drops the user's oldest ones above the limit. */
  issue(grant: SandboxGrant): string;
  /** Throws `invalid_grant` unless the token works. Reuse after the grace period revokes its grant. */
  redeem(text: string, client: SandboxClient): RefreshToken;
  /** Issues the token that replaces a redeemed one. */
  rotate(redeemed: RefreshToken): string;
  grantOf(text: string): SandboxGrant | undefined;
  reset(): void;
}

export interface RefreshToken {
  readonly text: string;
  readonly grant: SandboxGrant;
  readonly expiresAt: number;
  /** The token that this one replaced. */
  readonly replaced: string | undefined;
  /** When a newer token replaced this one. */
  supersededAt?: number;
  /** The token that replaced this one was used: the client has surely received it. */
  isSuccessorUsed?: boolean;
}

interface RefreshTokensOptions {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly seen: SandboxTraffic;
}

const rejected = () => refuseOAuth(400, "invalid_grant", "Token has been expired or revoked.");

export function createRefreshTokens({ now, settings, seen }: RefreshTokensOptions): RefreshTokens {
  const tokens = createBounded<RefreshToken>(maxTokens);
  /** The refresh tokens that have not been replaced, by client and person, the oldest first. */
  const current = new Map<string, Set<string>>();

  const currentOf = ({ clientId, person }: SandboxGrant): Set<string> => {
    const key = `${clientId}\0${person.id}`;
    const found = current.get(key) ?? new Set();
    current.set(key, found);
    return found;
  };

  function add(grant: SandboxGrant, previous?: RefreshToken): string {
    const { refreshTokenLifetimeS: lifetime } = settings();
    const expiresAt = previous?.expiresAt ?? (lifetime === null ? Number.POSITIVE_INFINITY : now() + lifetime * 1_000);
    const text = newToken("rt");
    tokens.set(text, { text, grant, expiresAt, replaced: previous?.text });
    currentOf(grant).add(text);
    return text;
  }

  /** The oldest tokens above the limit stop working without an error to anyone. */
  function dropExcess(grant: SandboxGrant): void {
    const texts = currentOf(grant);
    for (const text of texts) {
      if (tokens.get(text)?.grant.revoked !== false) texts.delete(text);
    }
    for (const text of [...texts].slice(0, Math.max(0, texts.size - settings().maxRefreshTokens))) {
      texts.delete(text);
      tokens.delete(text);
      seen.count("tokensOverflowed");
    }
  }

  function revokeReused(grant: SandboxGrant): void {
    grant.reuses += 1;
    seen.count("supersededReused");
    if (!grant.revoked) seen.count("familiesRevoked");
    grant.revoked = true;
  }

  return {
    issue(grant) {
      const text = add(grant);
      dropExcess(grant);
      return text;
    },
    redeem(text, client) {
      const found = tokens.get(text);
      if (found === undefined || found.grant.clientId !== client.id) throw rejected();
      const { grant, supersededAt, isSuccessorUsed, expiresAt } = found;
      if (supersededAt !== undefined) {
        if (isSuccessorUsed === true || now() >= supersededAt + settings().graceS * 1_000) {
          revokeReused(grant);
          throw rejected();
        }
        seen.count("supersededInGrace");
      }
      if (grant.revoked || now() >= expiresAt) throw rejected();
      return found;
    },
    rotate(redeemed) {
      redeemed.supersededAt ??= now();
      currentOf(redeemed.grant).delete(redeemed.text);
      const previous = tokens.get(redeemed.replaced ?? "");
      if (previous !== undefined) previous.isSuccessorUsed = true;
      return add(redeemed.grant, redeemed);
    },
    grantOf: (text) => tokens.get(text)?.grant,
    reset() {
      tokens.clear();
      current.clear();
    },
  };
}
