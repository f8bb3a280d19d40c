import { hash, randomBytes } from "node:crypto";
import { createBounded } from "../bounded.ts";
import { refuseOAuth } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient } from "./clients.ts";
import type { SandboxGrant } from "./grants.ts";

/** A user's consent, until the client exchanges its code. */
export interface AuthorizedConsent {
  readonly client: SandboxClient;
  readonly person: Person;
  readonly scopes: readonly string[];
  readonly redirectUri: string;
  /** If the request had a redirect URI, the exchange must repeat it (RFC 6749, section 4.1.3). */
  readonly namedRedirectUri: boolean;
  readonly challenge: string | undefined;
  readonly nonce: string | undefined;
  readonly isOffline: boolean;
}

/** Authorization codes: short-lived and usable once. */
export interface Codes {
  make(allowed: AuthorizedConsent, lifetimeS: number): string;
  /** Exchanges a code. A second use revokes the grant of the first (RFC 6749, section 4.1.2). */
  take(code: string, exchange: CodeExchange): AuthorizedConsent;
  /** Records the grant that a code was exchanged for. */
  recordGrant(code: string, grant: SandboxGrant): void;
  reset(): void;
}

interface CodeExchange {
  readonly client: SandboxClient;
  readonly redirectUri: string | null;
  readonly verifier: string | null;
}

interface CodesOptions {
  readonly now: () => number;
  readonly seen: SandboxTraffic;
  readonly revoke: (grant: SandboxGrant) => void;
}

export function createCodes({ now, seen, revoke }: CodesOptions): Codes {
  const codes = createBounded<
    AuthorizedConsent & { readonly expiresAt: number; isTaken: boolean; grant?: SandboxGrant }
  >(10_000);
  const bad = (why: string) => refuseOAuth(400, "invalid_grant", why);

  return {
    make(allowed, lifetimeS) {
      const code = `sbx_code_${randomBytes(24).toString("base64url")}`;
      codes.set(code, { ...allowed, expiresAt: now() + lifetimeS * 1_000, isTaken: false });
      return code;
    },
    take(code, { client, redirectUri, verifier }) {
      const found = codes.get(code);
      if (found === undefined || found.client.id !== client.id) throw bad("unknown code");
      if (found.isTaken) {
        seen.count("codesReused");
        if (found.grant !== undefined) revoke(found.grant);
        throw bad("this code has been used");
      }
      found.isTaken = true;
      if (now() >= found.expiresAt) throw bad("this code has expired");
      if ((redirectUri ?? (found.namedRedirectUri ? "" : found.redirectUri)) !== found.redirectUri) {
        throw bad("redirect_uri must equal that of the authorization request");
      }
      requireVerifier(found.challenge, verifier);
      seen.count("codesExchanged");
      return found;
    },
    recordGrant(code, grant) {
      const found = codes.get(code);
      if (found !== undefined) found.grant = grant;
    },
    reset: () => codes.clear(),
  };
}

/** RFC 7636, sections 4.1 and 4.6. A verifier without a challenge is refused (RFC 9700, section 4.8.2). */
function requireVerifier(challenge: string | undefined, verifier: string | null): void {
  if (challenge === undefined) {
    if (verifier === null) return;
    throw refuseOAuth(400, "invalid_grant", "code_verifier without a code_challenge");
  }
  if (verifier === null || !/^[A-Za-z0-9._~-]{43,128}$/.test(verifier)) {
    throw refuseOAuth(400, "invalid_grant", "code_verifier is missing or malformed");
  }
  if (hash("sha256", verifier, "base64url") !== challenge) {
    throw refuseOAuth(400, "invalid_grant", "code_verifier does not match the code_challenge");
  }
}
