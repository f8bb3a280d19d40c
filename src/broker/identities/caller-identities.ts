import type { World } from "../../base/world.ts";
import {
  grantFor,
  type IdentityRules,
  noIdentities,
  type TokenIssuer,
  type UserIssuer,
} from "../../core/identities/identity-rules.ts";
import { readSpiffeId } from "../../core/identities/spiffe.ts";
import type { Caller, CallerIdentity } from "../setup/caller.ts";
import {
  type AdmittedCallers,
  type AdmittedProof,
  type AdmittedProofs,
  createAdmittedCallers,
} from "./admitted-callers.ts";
import type { FetchKeySet } from "./issuer-keys.ts";
import { createKeySets, isSameIssuer } from "./key-sets.ts";
import { type CallerOfPeer, createPeerCallers } from "./peer-callers.ts";
import { refusedIdentity } from "./refusals.ts";
import { createSocketOwners, type SocketOwners } from "./socket-owners.ts";
import { createTokenCallers, type ExplainedToken, type TokenCallers } from "./token-callers.ts";
import { issuerOfToken } from "./token-verifier.ts";

/** Callers without a key: what proves them, and what the rules of the configuration let them do. */
export interface CallerIdentities {
  /** Replaces the rules. Callers that are no longer allowed are refused from their next request on. */
  configure(rules: IdentityRules, fetch: FetchKeySet): void;
  /** Whether tokens of some issuer are accepted. */
  takesTokens(): boolean;
  callerWithToken(token: string): Caller | Promise<Caller>;
  /** Returns the user of an access token for the MCP endpoint; undefined if its issuer is none of users. */
  userWithToken(token: string): Caller | Promise<Caller> | undefined;
  /** Issuers of users, with the endpoint that their tokens are for. */
  userIssuers(): readonly UserIssuer[];
  readonly callerOfPeer: CallerOfPeer;
  /** Returns whether a caller with an identity would be accepted again now. */
  isCurrent(caller: Caller): boolean;
  /** Returns the caller with what the rules grant now; undefined if its proof has ended, or no rule fits any more. */
  currentCaller(caller: Caller): Caller | undefined;
  explain(token: string): Promise<ExplainedToken>;
}

interface CallerIdentitiesOptions {
  readonly world: World;
  readonly owners?: SocketOwners;
}

/** Callers by the rules of one configuration: those by earlier rules are not among them. */
interface RuledCallers {
  readonly rules: IdentityRules;
  readonly admitted: AdmittedCallers;
  /** Undefined: there is no issuer. */
  readonly tokens: TokenCallers | undefined;
  /** Undefined: there is no issuer of users. */
  readonly users: TokenCallers | undefined;
  readonly userIssuers: readonly UserIssuer[];
  readonly ofPeer: CallerOfPeer;
}

export function createCallerIdentities(options: CallerIdentitiesOptions): CallerIdentities {
  const { world } = options;
  const { owners = createSocketOwners({ world }) } = options;
  const keySets = createKeySets(world);
  const proofs: AdmittedProofs = new WeakMap();
  /** Callers of earlier rules, with what the rules of now grant them. */
  let again = new WeakMap<CallerIdentity, Caller>();
  let current = callersBy(noIdentities, async () => {
    throw new Error("there is no issuer");
  });

  function callersBy(rules: IdentityRules, fetch: FetchKeySet): RuledCallers {
    const { userIssuers, issuers } = issuersIn(rules);
    const admitted = createAdmittedCallers(world, proofs);
    const shared = { rules, admitted, world };
    const keysOf = keySets(rules.issuers, fetch);
    const tokensOf = (some: readonly TokenIssuer[]) =>
      some.length === 0 ? undefined : createTokenCallers({ ...shared, rules: { ...rules, issuers: some }, keysOf });
    return {
      rules,
      admitted,
      tokens: tokensOf(issuers),
      users: tokensOf(userIssuers),
      userIssuers,
      ofPeer: createPeerCallers({ ...shared, owners }),
    };
  }

  /** Asks again if the rules have changed while the caller was looked up. */
  async function settled(
    by: RuledCallers,
    found: Promise<Caller>,
    again: () => Caller | Promise<Caller>,
  ): Promise<Caller> {
    const caller = await found;
    return by === current ? caller : again();
  }

  function callerWithToken(token: string): Caller | Promise<Caller> {
    const by = current;
    if (by.tokens === undefined) throw refusedIdentity("tokens are not accepted here: there is no issuer");
    const found = by.tokens.callerWith(token);
    return found instanceof Promise ? settled(by, found, () => callerWithToken(token)) : found;
  }

  function userWithToken(token: string): Caller | Promise<Caller> | undefined {
    const by = current;
    if (by.users === undefined || !isOfIssuer(token, by.userIssuers)) return undefined;
    const found = by.users.callerWith(token);
    if (!(found instanceof Promise)) return found;
    return settled(by, found, () => {
      return userWithToken(token) ?? refuseIssuer();
    });
  }

  const callerOfPeer: CallerOfPeer = (socket) => {
    const by = current;
    const found = by.ofPeer(socket);
    if (!(found instanceof Promise)) return found;
    return settled(by, found, () => {
      const caller = callerOfPeer(socket);
      if (caller === undefined) throw refusedIdentity("connections prove nothing here; send a key");
      return caller;
    });
  };

  function currentCaller({ identity }: Caller): Caller | undefined {
    const found = identity && proofs.get(identity);
    if (identity === undefined || found === undefined) return undefined;
    const { proven, proof, by, caller: admitted } = found;
    if (!proof.isValid(world.now()) || !isStillTaken(found, current.rules)) return undefined;
    if (by === current.admitted) return admitted;
    const known = again.get(identity);
    const grant = known === undefined ? grantFor(current.rules.grants, proven) : undefined;
    if (grant === undefined) return known;
    const caller = current.admitted.admit(proven, grant, proof);
    again.set(identity, caller);
    return caller;
  }

  return {
    configure(rules, fetch) {
      current = callersBy(rules, fetch);
      again = new WeakMap();
    },
    takesTokens: () => current.tokens !== undefined,
    callerWithToken,
    userWithToken,
    userIssuers: () => current.userIssuers,
    callerOfPeer,
    isCurrent: (caller) => current.admitted.isCurrent(caller),
    currentCaller,
    async explain(token) {
      if (current.tokens === undefined) throw refusedIdentity("tokens are not accepted here: there is no issuer");
      return current.tokens.explain(token);
    },
  };
}

const issuersIn = ({ issuers }: IdentityRules) => ({
  userIssuers: issuers.filter((issuer) => issuer.kind === "user"),
  issuers: issuers.filter(({ kind }) => kind !== "user"),
});

const isOfIssuer = (token: string, issuers: readonly UserIssuer[]): boolean => {
  const named = issuerOfToken(token);
  return issuers.some(({ issuer }) => issuer === named);
};

function refuseIssuer(): never {
  throw refusedIdentity("tokens of this issuer are no longer accepted");
}

/** Returns whether rules still take what has proven a caller. */
function isStillTaken(
  { proven, proof: { issuer } }: AdmittedProof,
  { issuers, certificateDomain }: IdentityRules,
): boolean {
  if (issuer !== undefined) return issuers.some((one) => isSameIssuer(one, issuer));
  return proven.kind !== "spiffe" || readSpiffeId(proven.id)?.trustDomain === certificateDomain;
}
