import type { Scope } from "../gen/latchkey/v1/access_pb.ts";

/** The company's OpenID Connect provider, through which people sign in to the dashboard. */
export interface IdentityProvider {
  readonly issuer: string;
  readonly clientId: string;
  /** Undefined: a public client, which has PKCE alone. */
  readonly clientSecret: string | undefined;
  readonly scopes: readonly string[];
  /** The claim with the groups of a person. */
  readonly groupsClaim: string;
  /** The claim with the name for the audit trail. */
  readonly nameClaim: string;
  readonly grants: readonly NamedGrant[];
}

/** What the people of a group may do. */
export interface GroupGrant {
  /** Undefined: in every environment. */
  readonly environments: readonly string[] | undefined;
  readonly scopes: ReadonlySet<Scope>;
}

export interface NamedGrant extends GroupGrant {
  /** `*` for all who can sign in. */
  readonly group: string;
}

export const everyone = "*";
