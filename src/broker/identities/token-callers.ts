import { createLateCache } from "../../base/caches/late-cache.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import {
  grantFor,
  type IdentityGrant,
  type IdentityRules,
  type ProvenSubject,
} from "../../core/identities/identity-rules.ts";
import type { Caller, CallerIdentity } from "../setup/caller.ts";
import { type AdmittedCallers, identityOf } from "./admitted-callers.ts";
import type { KeySets } from "./key-sets.ts";
import { noRuleFor } from "./refusals.ts";
import { createTokenVerifier, isStillValid, requireNotEnded, type VerifiedToken } from "./token-verifier.ts";

/** Callers with a token, by the rules of one configuration. */
export interface TokenCallers {
  /** Returns the caller, without a promise if the token was verified before. Throws, or rejects with, `identity_refused`. */
  callerWith(token: string): Caller | Promise<Caller>;
  /** Verifies a token and says which rule it meets. */
  explain(token: string): Promise<ExplainedToken>;
}

export interface ExplainedToken {
  readonly identity: CallerIdentity;
  readonly endsAtMs: number;
  /** Place of the rule in `identities.rules`; undefined: no rule fits. */
  readonly rule: number | undefined;
  readonly grant: IdentityGrant | undefined;
}

interface TokenCallersOptions {
  readonly rules: IdentityRules;
  readonly keysOf: KeySets;
  readonly admitted: AdmittedCallers;
  readonly world: World;
}

interface KnownToken {
  readonly token: VerifiedToken;
  readonly caller: Caller;
}

const maxVerified = 20_000;

export function createTokenCallers({ rules, keysOf, admitted, world }: TokenCallersOptions): TokenCallers {
  const { issuers, grants } = rules;
  const verifier = createTokenVerifier({ issuers, keysOf, world });
  /** By digest: no token is kept. */
  const known = createLateCache<KnownToken>({ max: maxVerified });

  async function verify(text: string, digest: string): Promise<Caller> {
    const token = await verifier.verify(text);
    const proven = subjectOf(token);
    const grant = grantFor(grants, proven);
    if (grant === undefined) throw noRuleFor(identityOf(proven).name);
    const caller = admitted.admit(proven, grant, {
      isValid: (nowMs) => isStillValid(token, nowMs),
      issuer: token.issuer,
    });
    known.set(digest, { token, caller });
    return caller;
  }

  return {
    callerWith(text) {
      const digest = digestOf(text);
      const found = known.get(digest);
      if (found === undefined) return verify(text, digest);
      requireNotEnded(found.token, world.now());
      return admitted.isCurrent(found.caller) ? found.caller : verify(text, digest);
    },
    async explain(text) {
      const token = await verifier.verify(text);
      const proven = subjectOf(token);
      const grant = grantFor(grants, proven);
      const rule = grant === undefined ? undefined : grants.indexOf(grant);
      return { identity: identityOf(proven), endsAtMs: token.endsAtMs, rule, grant };
    },
  };
}

function subjectOf({ issuer, subject }: VerifiedToken): ProvenSubject {
  return issuer.kind === "spiffe"
    ? { kind: "spiffe", id: subject }
    : { kind: issuer.kind, issuer: issuer.name, subject };
}
