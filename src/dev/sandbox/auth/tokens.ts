import { randomBytes } from "node:crypto";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { refuseOAuth } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient } from "./clients.ts";

/** What one consent brought: every token that comes of it belongs to its family, and ends with it. */
export interface SandboxGrant {
  readonly id: string;
  readonly clientId: string;
  readonly person: Person;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  refreshes: number;
  /** How often a refresh token of it was used that had been replaced, and whose grace was over. */
  reuses: number;
  revoked: boolean;
}

export interface AccessToken {
  readonly grant: SandboxGrant;
  readonly scopes: readonly string[];
  readonly expiresAt: number;
}

export interface IssuedTokens {
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly expiresInS: number;
  readonly scopes: readonly string[];
  readonly grant: SandboxGrant;
}

interface RefreshToken {
  readonly text: string;
  readonly grant: SandboxGrant;
  readonly expiresAt: number;
  /** The one that it took the place of. */
  readonly before: string | undefined;
  /** Since when another stands in its place. */
  supersededAt?: number;
  /** The one after it was used, so that there is no doubt any more that it arrived. */
  isFollowed?: boolean;
}

/** Grants, their access tokens and their refresh tokens. */
export interface SandboxTokens {
  grant(wish: GrantWish): IssuedTokens;
  /** Another access token of a grant, without a refresh token. */
  access(grant: SandboxGrant, scopes: readonly string[]): IssuedTokens;
  /** RFC 6749, section 6, with rotation (RFC 9700, section 4.14.2). Throws the refusal. */
  refresh(text: string, client: SandboxClient, scopes: readonly string[] | undefined): IssuedTokens;
  /** What a good access token opens; of one that has expired or was revoked, nothing. */
  find(accessToken: string): AccessToken | undefined;
  revokeGrants(which: (grant: SandboxGrant) => boolean): number;
  /** RFC 7009: a refresh token ends its grant, an access token itself. */
  revoke(text: string, client?: SandboxClient): boolean;
  grants(): readonly SandboxGrant[];
  reset(): void;
}

export interface GrantWish {
  readonly client: SandboxClient;
  readonly person: Person;
  readonly scopes: readonly string[];
  readonly withRefreshToken: boolean;
}

interface TokensOptions {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly seen: SandboxTraffic;
}

const mostTokens = 100_000;
const mostGrants = 20_000;

/** Opaque, and recognisable in a log. 192 random bits. */
const newToken = (kind: string) => `sbx_${kind}_${randomBytes(24).toString("base64url")}`;

const gone = () => refuseOAuth(400, "invalid_grant", "Token has been expired or revoked.");

export function createTokens({ now, settings, seen }: TokensOptions): SandboxTokens {
  const grants = createBounded<SandboxGrant>(mostGrants);
  const accesses = createBounded<AccessToken>(mostTokens);
  const refreshTokens = createBounded<RefreshToken>(mostTokens);
  /** By client and person, the refresh tokens that have not been replaced, the oldest first. */
  const live = new Map<string, Set<string>>();

  function access(grant: SandboxGrant, scopes: readonly string[]): IssuedTokens {
    const expiresInS = settings().accessTokenLifetimeS;
    const accessToken = newToken("at");
    accesses.set(accessToken, { grant, scopes, expiresAt: now() + expiresInS * 1_000 });
    seen.count("tokensIssued");
    return { accessToken, expiresInS, scopes, grant };
  }

  function newRefreshToken(grant: SandboxGrant, before?: RefreshToken): string {
    const { refreshTokenLifetimeS: lifetime } = settings();
    const expiresAt = before?.expiresAt ?? (lifetime === null ? Number.POSITIVE_INFINITY : now() + lifetime * 1_000);
    const text = newToken("rt");
    refreshTokens.set(text, { text, grant, expiresAt, before: before?.text });
    liveOf(grant).add(text);
    return text;
  }

  const liveOf = ({ clientId, person }: SandboxGrant): Set<string> => {
    const key = `${clientId}\0${person.id}`;
    const found = live.get(key) ?? new Set();
    live.set(key, found);
    return found;
  };

  function revokeFamily(grant: SandboxGrant): void {
    if (!grant.revoked) seen.count("familiesRevoked");
    grant.revoked = true;
  }

  /** The oldest beyond the limit stop working, and nobody is told. */
  function dropOverflow(latest: SandboxGrant): void {
    const texts = liveOf(latest);
    for (const text of texts) {
      if (refreshTokens.get(text)?.grant.revoked !== false) texts.delete(text);
    }
    for (const text of [...texts].slice(0, Math.max(0, texts.size - settings().maxRefreshTokens))) {
      texts.delete(text);
      refreshTokens.delete(text);
      seen.count("tokensOverflowed");
    }
  }

  return {
    access,
    grant({ client, person, scopes, withRefreshToken }) {
      const grant: SandboxGrant = {
        id: randomBytes(9).toString("base64url"),
        clientId: client.id,
        person,
        scopes,
        createdAt: now(),
        refreshes: 0,
        reuses: 0,
        revoked: false,
      };
      grants.set(grant.id, grant);
      const issued = access(grant, scopes);
      if (!withRefreshToken) return issued;
      const refreshToken = newRefreshToken(grant);
      dropOverflow(grant);
      return { ...issued, refreshToken };
    },
    refresh(text, client, scopes) {
      const { rotation, graceS } = settings();
      const found = refreshTokens.get(text);
      if (found === undefined || found.grant.clientId !== client.id) throw gone();
      const { grant } = found;
      if (found.supersededAt !== undefined) {
        if (found.isFollowed === true || now() >= found.supersededAt + graceS * 1_000) {
          grant.reuses += 1;
          seen.count("supersededReused");
          revokeFamily(grant);
          throw gone();
        }
        seen.count("supersededInGrace");
      }
      if (grant.revoked || now() >= found.expiresAt) throw gone();
      if (scopes?.some((scope) => !grant.scopes.includes(scope))) {
        throw refuseOAuth(400, "invalid_scope", "more than was granted");
      }
      grant.refreshes += 1;
      seen.count("refreshes");
      const issued = access(grant, scopes ?? grant.scopes);
      if (!rotation) return issued;
      found.supersededAt ??= now();
      liveOf(grant).delete(text);
      const previous = refreshTokens.get(found.before ?? "");
      if (previous !== undefined) previous.isFollowed = true;
      return { ...issued, refreshToken: newRefreshToken(grant, found) };
    },
    find(accessToken) {
      const found = accesses.get(accessToken);
      return found === undefined || found.grant.revoked || now() >= found.expiresAt ? undefined : found;
    },
    revokeGrants(which) {
      const ending = [...grants.values()].filter((grant) => !grant.revoked && which(grant));
      for (const grant of ending) grant.revoked = true;
      return ending.length;
    },
    revoke(text, client) {
      const { grant } = refreshTokens.get(text) ?? {};
      const owner = (grant ?? accesses.get(text)?.grant)?.clientId;
      if (owner === undefined || (client !== undefined && owner !== client.id)) return false;
      if (grant !== undefined) grant.revoked = true;
      return accesses.delete(text) || grant !== undefined;
    },
    grants: () => [...grants.values()],
    reset() {
      grants.clear();
      accesses.clear();
      refreshTokens.clear();
      live.clear();
    },
  };
}
