import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import {
  environmentsOfAccount,
  isAccountSubject,
  type ServiceAccountRules,
} from "../../core/identities/identity-rules.ts";
import {
  findWrongClaim,
  isSignedBy,
  keysFor,
  type ParsedJwt,
  publicAlgorithms,
  readJwt,
} from "../../core/notifications/jwt.ts";
import type { EdgeIdentity } from "../setup/caller.ts";
import type { IssuerKeys } from "./issuer-keys.ts";

/** Verifies tokens of service accounts. */
export interface AccountTokens {
  /** Returns who has proven an identity with a token. Throws `identity_refused` or `identity_not_allowed`. */
  proofOf(token: string): EdgeIdentity | Promise<EdgeIdentity>;
}

interface AccountTokensOptions {
  readonly rules: ServiceAccountRules;
  readonly keys: IssuerKeys;
  readonly world: World;
}

/** A valid token, which is looked at again twice a second while its stream is open. */
interface VerifiedToken {
  readonly subject: string;
  readonly keyId: string;
  readonly endsAtMs: number;
  readonly proof: EdgeIdentity;
}

/** Tokens of Kubernetes have 1 to 2 KiB. */
const maxLength = 8_192;
const maxVerified = 20_000;

/** Verifies what is cheap first, so that made-up tokens cost no signature. Messages never quote a token. */
export function createAccountTokens({ rules, keys, world }: AccountTokensOptions): AccountTokens {
  const verified = new LRUCache<string, VerifiedToken>({ max: maxVerified });

  /** Returns the ID of the key, the subject and the end of a token that is well-formed and meant for us. */
  function claimsOf(token: ParsedJwt): Omit<VerifiedToken, "proof"> {
    const { issuer, audience } = rules;
    const nowMs = world.now();
    const wrong = findWrongClaim(token, { issuer, audience, maxAgeMs: undefined, mayLackEnd: false, nowMs });
    if (wrong !== undefined) throw refused(wrongClaims[wrong]);
    const { sub, exp } = token.claims;
    const endsAtMs = Number(exp) * 1_000;
    if (endsAtMs <= nowMs) throw refused(wrongClaims.too_old);
    if (typeof sub !== "string" || !isAccountSubject(sub)) throw refused("is not one of a Kubernetes service account");
    if (token.keyId === undefined) throw refused("does not name its key (`kid`)");
    return { subject: sub, keyId: token.keyId, endsAtMs };
  }

  async function verify(text: string, digest: string): Promise<EdgeIdentity> {
    const token = readJwt(text, publicAlgorithms);
    if (token === undefined) throw refused(`must be a JWT that is signed with ${publicAlgorithms.join(" or ")}`);
    const claims = claimsOf(token);
    const candidates = keysFor(token, await keys.withId(claims.keyId));
    if (candidates.length === 0) throw refused("names a key that its issuer does not publish");
    if (!candidates.some((key) => isSignedBy(token, key))) throw refused("has a wrong signature");
    const { subject: name, endsAtMs } = claims;
    const environments = environmentsOfAccount(rules.grants, name);
    if (environments === undefined) {
      const message = `no rule allows ${name} to follow as an edge`;
      throw new Fault("identity_not_allowed", message, { metadata: { identity: name }, hint: allowHint });
    }
    const proof: EdgeIdentity = { kind: "service_account", name, environments, endsAtMs };
    verified.set(digest, { ...claims, proof });
    return proof;
  }

  return {
    proofOf(text) {
      if (text.length > maxLength) throw refused(`must have at most ${maxLength} characters`);
      const digest = createHash("sha256").update(text).digest("base64");
      const known = verified.get(digest);
      if (known === undefined || !keys.has(known.keyId)) return verify(text, digest);
      if (known.endsAtMs <= world.now()) throw refused(wrongClaims.too_old, known.subject);
      return known.proof;
    },
  };
}

const wrongClaims = {
  too_old: "has expired",
  from_the_future: "is not valid yet: compare the clocks of the cluster and of the brokers",
  wrong_issuer: "is from another issuer than `edges.service_accounts.issuer`",
  wrong_audience: "is for another audience than `edges.service_accounts.audience`",
} as const;

const allowHint = "add it to `edges.service_accounts.allow` in the brokers' configuration file";

const refused = (what: string, identity?: string): Fault =>
  new Fault("identity_refused", `the service-account token ${what}`, {
    ...(identity !== undefined && { metadata: { identity } }),
  });
