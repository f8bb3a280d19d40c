import type { SignedInPerson } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Access } from "../setup/access.ts";
import type { Caller } from "../setup/caller.ts";

/** What a group of people may do. */
export interface GroupGrant {
  /** Undefined: every environment. */
  readonly environments: readonly string[] | undefined;
  readonly scopes: ReadonlySet<Scope>;
}

/** Returns what the configuration grants a person now; an empty list if nothing. */
export type GrantsOf = (person: SignedInPerson) => readonly GroupGrant[];

/** The holder of a session or link: a key, or a person. */
export interface SessionHolder {
  readonly keyId: string;
  readonly keyDigest: string;
  readonly person?: SignedInPerson | undefined;
}

/** Looks up what the holder of a session may do now. */
export interface SessionHolders {
  /** Sets what people may do. Without it, no person has access. */
  grantPeople(grantsOf: GrantsOf): void;
  /** Returns the callers that the holder can be, one for each environment; none if the key or the permission is gone. */
  callersOf(holder: SessionHolder): readonly Caller[];
}

export function createSessionHolders(access: Pick<Access, "callerWithDigest">): SessionHolders {
  let grantsOf: GrantsOf = () => [];
  return {
    grantPeople(given) {
      grantsOf = given;
    },
    callersOf({ keyId, keyDigest, person }) {
      if (person !== undefined) return callersOfGrants(person.name, grantsOf(person));
      const caller = access.callerWithDigest(keyDigest);
      // A key of another ID may have been given the same secret in the configuration.
      return caller?.keyId === keyId ? [caller] : [];
    },
  };
}

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
