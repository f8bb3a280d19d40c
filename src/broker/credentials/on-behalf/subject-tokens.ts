import type { JsonObject } from "@bufbuild/protobuf";
import { createLateCache } from "../../../base/caches/late-cache.ts";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { SendSmallRequest } from "../../../base/small-requests.ts";
import type { World } from "../../../base/world.ts";
import { isSignedWith, type TokenAlgorithm, tokenAlgorithms } from "../../../core/identities/verification-keys.ts";
import { findWrongClaim, type ParsedJwt, readJwt } from "../../../core/notifications/jwt.ts";
import { createIssuerKeys, type IssuerKeys } from "../../identities/issuer-keys.ts";
import { type AuthorizationServers, createAuthorizationServers } from "../../tokens/authorization-server.ts";
import type { TokenParties } from "../../tokens/token-endpoint.ts";
import type { OnBehalfSettings, SubjectRules, SubjectTokenType } from "./settings.ts";

/** A user, as a verified token proves it. */
export interface Subject {
  /** Digest of the token. */
  readonly digest: string;
  /** Tells users apart, and tokens of one user that prove different rights. */
  readonly identity: string;
  readonly endsAtMs: number;
}

/** Verifies tokens of users. Faults say what is wrong and never quote a token. */
export interface SubjectTokens {
  /** Rejects with `subject_token_refused`, or `identity_keys_unavailable`. */
  verify(token: string, settings: OnBehalfSettings): Promise<Subject>;
}

interface SubjectTokensOptions {
  readonly send: SendSmallRequest;
  readonly world: World;
}

interface VerifiedSubject extends Subject {
  readonly keyId: string;
  readonly keys: IssuerKeys;
}

const maxLength = 16_384;
const maxVerified = 10_000;
const maxIssuers = 1_000;
const limits = { deadlineMs: 10_000, maxBytes: 256 * 1024 };

export function createSubjectTokens({ send, world }: SubjectTokensOptions): SubjectTokens {
  const servers = createAuthorizationServers(send);
  const issuers = createLateCache<IssuerKeys>({ max: maxIssuers });
  /** By digest: no token is kept. */
  const verified = createLateCache<VerifiedSubject>({ max: maxVerified });

  function keysOf({ identityProvider, subjects }: OnBehalfSettings): IssuerKeys {
    const known = issuers.get(subjects.keys);
    if (known !== undefined) return known;
    const { issuer } = subjects;
    const made = createIssuerKeys({
      place: { kind: "url", url: undefined, issuer, ca: undefined, tokenFile: undefined },
      uses: ["sig"],
      fetch: () => fetchKeySet({ servers, send }, identityProvider),
      world,
    });
    issuers.set(subjects.keys, made);
    return made;
  }

  return {
    async verify(text, settings) {
      const { subjects } = settings;
      if (text.length > maxLength) throw refused(`must have at most ${maxLength} characters`);
      const digest = digestOf(JSON.stringify([text, subjects]));
      const known = verified.get(digest);
      if (known?.keys.has(known.keyId) === true) {
        if (known.endsAtMs <= world.now()) throw refused("has expired");
        return known;
      }
      const token = readJwt(text, tokenAlgorithms);
      if (token === undefined) {
        throw refused(`must be a JWT that is signed with ${tokenAlgorithms.join(" or ")}`);
      }
      const { keyId, identity, endsAtMs } = claimsOf(token, subjects, world.now());
      const keys = keysOf(settings);
      const candidates = await keys.withId(keyId);
      if (candidates.length === 0) throw refused("names a key that its issuer does not publish");
      if (!candidates.some((key) => isSignedWith(token, key))) throw refused("has a wrong signature");
      const found = { digest, identity, endsAtMs, keyId, keys };
      verified.set(digest, found);
      return found;
    },
  };
}

interface KeySetFetch {
  readonly servers: AuthorizationServers;
  readonly send: SendSmallRequest;
}

/** Fetches the keys of an identity provider, as the egress rules for providers allow. */
async function fetchKeySet({ servers, send }: KeySetFetch, identityProvider: TokenParties): Promise<string> {
  const { auth } = identityProvider.provider;
  const location = auth.case === "oauth2Client" ? await servers.keySetOf(identityProvider, auth.value) : undefined;
  if (location === undefined) throw new Error("the identity provider names no keys");
  const request = { url: location.url, method: "GET", headers: { accept: "application/json" } };
  const { status, body } = await send(request, limits);
  if (status !== 200) throw new Error(`the identity provider's keys were answered with the status ${status}`);
  return body.toString();
}

/** Types of tokens (`typ`), in lower case, that may prove a user. Others of the same issuer, such as logout tokens, may not. */
const acceptedTypes: { readonly [T in SubjectTokenType]: readonly string[] } = {
  id_token: ["jwt"],
  access_token: ["jwt", "at+jwt"],
  jwt: ["jwt", "at+jwt"],
};

/** Returns the key's ID, the user and the end of a token that is well-formed and meant for us. */
function claimsOf(token: ParsedJwt<TokenAlgorithm>, { issuer, audience, type }: SubjectRules, nowMs: number) {
  const { claims, keyId } = token;
  const given = (token.type ?? "jwt").toLowerCase().replace(/^application\//, "");
  if (!acceptedTypes[type].includes(given)) throw refused(`has the type of another kind of token than ${type}`);
  // A logout token (OpenID Connect Back-Channel Logout) has the issuer, audience and subject of an ID token.
  if (claims["events"] !== undefined) throw refused("is a security event, which proves no user");
  const wrong = findWrongClaim({ claims }, { issuer, audience, maxAgeMs: undefined, mayLackEnd: false, nowMs });
  if (wrong !== undefined) throw refused(wrongClaims[wrong]);
  const { sub, exp } = claims;
  const endsAtMs = Number(exp) * 1_000;
  // Without tolerance, as for callers: issuers renew tokens long before their end.
  if (endsAtMs <= nowMs) throw refused(wrongClaims.too_old);
  if (typeof sub !== "string" || sub === "" || sub.length > 255) throw refused("does not name its user (`sub`)");
  if (keyId === undefined) throw refused("does not name its key (`kid`)");
  return { keyId, endsAtMs, identity: digestOf(JSON.stringify([issuer, sub, authorityOf(claims)])) };
}

/** Claims that differ between tokens of equal rights, and those that are compared anyway. */
const ofOneToken = new Set([
  ...["iss", "sub", "iat", "nbf", "exp", "jti", "nonce", "at_hash", "c_hash", "s_hash", "sid", "auth_time"],
  // Microsoft Entra.
  ...["uti", "aio", "rh"],
]);

/**
 * Returns the other claims: scopes, client, actor, level of authentication. An access token that was obtained with more
 * rights must not serve a call whose token has fewer.
 */
const authorityOf = (claims: JsonObject): readonly unknown[] =>
  Object.entries(claims)
    .filter(([name]) => !ofOneToken.has(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));

/**
 * Identifies the user that a token claims to be of, without a verification, which follows where the token is used. Later
 * tokens of the same user and rights have the same identity.
 */
export function claimedIdentity(text: string): string {
  const claims = readJwt(text, tokenAlgorithms)?.claims;
  return digestOf(JSON.stringify(claims === undefined ? [text] : [claims["iss"], claims["sub"], authorityOf(claims)]));
}

const wrongClaims = {
  too_old: "has expired",
  from_the_future: "is not valid yet: compare the clock of its issuer with ours",
  wrong_issuer: "is from another issuer than that of the integration's identity provider",
  wrong_audience: "is for another audience than `subject_audience`",
} as const;

const refused = (what: string): Fault => Fault.withoutStack("subject_token_refused", `the user's token ${what}`);
