import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { TokenIssuer } from "../../core/identities/identity-rules.ts";
import { readAccountSubject } from "../../core/identities/service-account.ts";
import { readSpiffeId } from "../../core/identities/spiffe.ts";
import { isSignedWith, type TokenAlgorithm, tokenAlgorithms } from "../../core/identities/verification-keys.ts";
import { findWrongClaim, type ParsedJwt, readJwt } from "../../core/notifications/jwt.ts";
import type { IssuerKeys } from "./issuer-keys.ts";
import type { KeySets } from "./key-sets.ts";

/** A token whose signature, issuer, audience and times are right. */
export interface VerifiedToken {
  readonly issuer: TokenIssuer;
  /** `sub`: a service account, a SPIFFE ID or a user. */
  readonly subject: string;
  readonly keyId: string;
  readonly endsAtMs: number;
  /** The issuer's keys: the token ends with its key. */
  readonly keys: Pick<IssuerKeys, "has">;
}

/** Verifies tokens of the issuers in the configuration. Faults say what is wrong and never quote a token. */
export interface TokenVerifier {
  verify(token: string): Promise<VerifiedToken>;
}

interface TokenVerifierOptions {
  readonly issuers: readonly TokenIssuer[];
  readonly keysOf: KeySets;
  readonly world: World;
}

/** Tokens of Kubernetes and SPIFFE have 1 to 2 KiB. */
const maxLength = 8_192;

/** Whether a secret has the form of a JWT, which no key has. */
export const isTokenForm = (secret: string): boolean => /^eyJ[\w-]*\.[\w-]*\.[\w-]*$/.test(secret);

/** Returns the issuer that a token names; nothing of it is verified. */
export const issuerOfToken = (text: string): string | undefined => {
  const iss = text.length > maxLength ? undefined : readJwt(text, tokenAlgorithms)?.claims["iss"];
  return typeof iss === "string" ? iss : undefined;
};

/** Verifies what is cheap first, so that made-up tokens cost no signature. */
export function createTokenVerifier({ issuers, keysOf, world }: TokenVerifierOptions): TokenVerifier {
  return {
    async verify(text) {
      if (text.length > maxLength) throw refused(undefined, `must have at most ${maxLength} characters`);
      const token = readJwt(text, tokenAlgorithms);
      if (token === undefined) throw refused(undefined, `must be a JWT that is signed with ${algorithmList}`);
      const issuer = issuerOf(issuers, token);
      const { subject, keyId, endsAtMs } = claimsOf(token, issuer, world.now());
      const keys = keysOf(issuer);
      const candidates = await keys.withId(keyId);
      if (candidates.length === 0) throw refused(issuer, "names a key that its issuer does not publish");
      if (!candidates.some((key) => isSignedWith(token, key))) throw refused(issuer, "has a wrong signature");
      return { issuer, subject, keyId, endsAtMs, keys };
    },
  };
}

/** Whether a token that was valid still is, as far as is known without a fetch. */
export const isStillValid = ({ endsAtMs, keyId, keys }: VerifiedToken, nowMs: number): boolean =>
  endsAtMs > nowMs && keys.has(keyId);

/** Throws for a verified token that has ended meanwhile. */
export function requireNotEnded({ issuer, subject, endsAtMs }: VerifiedToken, nowMs: number): void {
  if (endsAtMs <= nowMs) throw refused(issuer, "has expired", subject);
}

const algorithmList = `${tokenAlgorithms.slice(0, -1).join(", ")} or ${tokenAlgorithms.at(-1)}`;

/** Returns the issuer that a token names by `iss`, or by the trust domain of its SPIFFE ID. */
function issuerOf(issuers: readonly TokenIssuer[], { claims }: ParsedJwt<TokenAlgorithm>): TokenIssuer {
  const { iss, sub, aud } = claims;
  const id = typeof sub === "string" ? readSpiffeId(sub) : undefined;
  const named = issuers.filter((one) =>
    one.kind === "spiffe" ? one.trustDomain === id?.trustDomain : id === undefined && one.issuer === iss,
  );
  // One issuer may be there for several audiences.
  const issuer = named.find(({ audience }) => audiencesIn(aud).includes(audience)) ?? named[0];
  if (issuer !== undefined) return issuer;
  const [only] = issuers;
  const setting = issuers.length === 1 && only !== undefined ? only.setting : "identities.issuers";
  const what = id === undefined ? "is from another issuer" : "is of another trust domain";
  throw refused(
    only?.kind === "service_account" && issuers.length === 1 ? only : undefined,
    `${what} than \`${setting}\``,
  );
}

const audiencesIn = (aud: unknown): readonly unknown[] => (Array.isArray(aud) ? aud : [aud]);

/** Returns the key's ID, the subject and the end of a token that is well-formed and meant for us. */
function claimsOf({ claims, keyId }: ParsedJwt<TokenAlgorithm>, issuer: TokenIssuer, nowMs: number) {
  const { audience, setting } = issuer;
  const rules = { issuer: issuer.issuer ?? "", audience, maxAgeMs: undefined, mayLackEnd: false, nowMs };
  const wrong = findWrongClaim({ claims }, rules);
  if (wrong !== undefined) throw refused(issuer, wrongClaims[wrong](setting));
  const { sub: subject, exp } = claims;
  // Without tolerance: the end is the only way to end a token, and issuers renew tokens long before.
  const endsAtMs = Number(exp) * 1_000;
  if (endsAtMs <= nowMs) throw refused(issuer, wrongClaims.too_old());
  if (issuer.kind === "user" && (typeof subject !== "string" || subject === "" || subject.length > maxSubject)) {
    throw refused(issuer, "does not name its user (`sub`)");
  }
  if (typeof subject !== "string" || (issuer.kind === "service_account" && readAccountSubject(subject) === undefined)) {
    throw refused(issuer, "is not one of a Kubernetes service account");
  }
  if (keyId === undefined) throw refused(issuer, "does not name its key (`kid`)");
  return { subject, keyId, endsAtMs };
}

const wrongClaims = {
  too_old: () => "has expired",
  from_the_future: () => "is not valid yet: compare the clock of its issuer with ours",
  wrong_issuer: (setting: string) => `is from another issuer than \`${setting}\``,
  wrong_audience: (setting: string) => `is for another audience than \`${setting}\``,
} as const;

/** Longest ID of an end user. */
const maxSubject = 255;

const nouns = { service_account: "service-account token", spiffe: "JWT-SVID", user: "access token" } as const;

function refused(issuer: TokenIssuer | undefined, what: string, identity?: string): Fault {
  const noun = issuer === undefined ? "token" : nouns[issuer.kind];
  return Fault.withoutStack("identity_refused", `the ${noun} ${what}`, {
    ...(identity !== undefined && { metadata: { identity } }),
  });
}
