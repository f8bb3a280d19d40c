import { randomBytes } from "node:crypto";
import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import { refuseOAuth } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient } from "./clients.ts";
import { maxTokens, newToken, type SandboxGrant } from "./grants.ts";
import { createRefreshTokens } from "./refresh-tokens.ts";

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

/** Grants, their access tokens and their refresh tokens. */
export interface SandboxTokens {
  grant(request: GrantRequest): IssuedTokens;
  /** Issues another access token of a grant, without a refresh token. */
  access(grant: SandboxGrant, scopes: readonly string[]): IssuedTokens;
  /** RFC 6749, section 6, with rotation (RFC 9700, section 4.14.2). Throws the refusal. */
  refresh(text: string, client: SandboxClient, scopes: readonly string[] | undefined): IssuedTokens;
  /** Undefined for an unknown, expired or revoked access token. */
  find(accessToken: string): AccessToken | undefined;
  revokeGrants(which: (grant: SandboxGrant) => boolean): number;
  /** RFC 7009: a refresh token ends its grant, an access token itself. */
  revoke(text: string, client?: SandboxClient): boolean;
  grants(): readonly SandboxGrant[];
  reset(): void;
}

export interface GrantRequest {
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

const maxGrants = 20_000;

export function createTokens({ now, settings, seen }: TokensOptions): SandboxTokens {
  const grants = createBounded<SandboxGrant>(maxGrants);
  const accessTokens = createBounded<AccessToken>(maxTokens);
  const refreshTokens = createRefreshTokens({ now, settings, seen });

  function access(grant: SandboxGrant, scopes: readonly string[]): IssuedTokens {
    const expiresInS = settings().accessTokenLifetimeS;
    const accessToken = newToken("at");
    accessTokens.set(accessToken, { grant, scopes, expiresAt: now() + expiresInS * 1_000 });
    seen.count("tokensIssued");
    return { accessToken, expiresInS, scopes, grant };
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
      return withRefreshToken ? { ...issued, refreshToken: refreshTokens.issue(grant) } : issued;
    },
    refresh(text, client, scopes) {
      const redeemed = refreshTokens.redeem(text, client);
      const { grant } = redeemed;
      if (scopes?.some((scope) => !grant.scopes.includes(scope))) {
        throw refuseOAuth(400, "invalid_scope", "more than was granted");
      }
      grant.refreshes += 1;
      seen.count("refreshes");
      const issued = access(grant, scopes ?? grant.scopes);
      return settings().rotation ? { ...issued, refreshToken: refreshTokens.rotate(redeemed) } : issued;
    },
    find(accessToken) {
      const found = accessTokens.get(accessToken);
      return found === undefined || found.grant.revoked || now() >= found.expiresAt ? undefined : found;
    },
    revokeGrants(which) {
      const revoked = [...grants.values()].filter((grant) => !grant.revoked && which(grant));
      for (const grant of revoked) grant.revoked = true;
      return revoked.length;
    },
    revoke(text, client) {
      const grant = refreshTokens.grantOf(text);
      const owner = (grant ?? accessTokens.get(text)?.grant)?.clientId;
      if (owner === undefined || (client !== undefined && owner !== client.id)) return false;
      if (grant !== undefined) grant.revoked = true;
      return accessTokens.delete(text) || grant !== undefined;
    },
    grants: () => [...grants.values()],
    reset() {
      grants.clear();
      accessTokens.clear();
      refreshTokens.reset();
    },
  };
}
