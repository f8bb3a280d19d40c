import { compileLimits } from "../../core/access/limits.ts";
import type { IdentityGrant } from "../../core/identities/identity-rules.ts";
import type { Caller, CallerIdentity } from "../setup/caller.ts";

/** Returns what logs, the audit trail and rate limits call an identity. No key has a name with a blank. */
export const identityName = ({ kind, name }: CallerIdentity): string => `${kind} ${name}`;

/** Returns the caller that has proven an identity, with what its rule grants. */
export function callerOfIdentity(
  identity: CallerIdentity,
  { environment, scopes, limits: given }: IdentityGrant,
): Caller {
  const limits = compileLimits(given);
  return {
    keyId: identityName(identity),
    environment,
    scopes: new Set(scopes),
    identity,
    ...(limits && { limits }),
  };
}
