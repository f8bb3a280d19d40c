import type { GroupGrant, IdentityProvider } from "../../core/identity-provider.ts";
import type { SignedInPerson } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Access } from "../setup/access.ts";
import type { Caller } from "../setup/caller.ts";

/** The holder of a session or link: a key, or a person. */
export interface SessionHolder {
  readonly keyId: string;
  readonly keyDigest: string;
  readonly person?: SignedInPerson | undefined;
}

/** Looks up what the holder of a session may do now. */
export interface SessionHolders {
  /** Sets what people of an identity provider may do. Without it, no person has access. */
  admitPeople(provider: IdentityProvider): void;
  /** Returns the callers that the holder can be, one for each environment; none if the key or the permission is gone. */
  callersOf(holder: SessionHolder): readonly Caller[];
}

export function createSessionHolders(access: Pick<Access, "callerWithDigest">): SessionHolders {
  let provider: IdentityProvider | undefined;
  return {
    admitPeople(given) {
      provider = given;
    },
    callersOf({ keyId, keyDigest, person }) {
      if (person !== undefined) return callersOfGrants(person.name, grantsOf(person, provider));
      const caller = access.callerWithDigest(keyDigest);
      // A key of another ID may have been given the same secret in the configuration.
      return caller?.keyId === keyId && caller.limits === undefined ? [caller] : [];
    },
  };
}

/** Returns what the configuration grants a person now. */
const grantsOf = ({ issuer, groups }: SignedInPerson, provider: IdentityProvider | undefined): readonly GroupGrant[] =>
  provider?.issuer === issuer ? provider.grants.filter(({ group }) => groups.includes(group)) : [];

/** Adds up the scopes of each environment. What is granted everywhere holds in every environment, so it comes alone. */
function callersOfGrants(keyId: string, grants: readonly GroupGrant[]): readonly Caller[] {
  const everywhere = grants.filter(({ environments }) => environments === undefined);
  const named = new Set(grants.flatMap(({ environments = [] }) => environments));
  const scopesOf = (some: readonly GroupGrant[]) => new Set(some.flatMap(({ scopes }) => [...scopes]));
  const own = [...named].map((environment): Caller => {
    const here = grants.filter(({ environments }) => environments === undefined || environments.includes(environment));
    return { keyId, environment, scopes: scopesOf(here) };
  });
  const all = everywhere.length === 0 ? [] : [{ keyId, environment: undefined, scopes: scopesOf(everywhere) }];
  return [...all, ...own];
}
