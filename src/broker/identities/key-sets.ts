import type { World } from "../../base/world.ts";
import type { KeySetPlace, TokenIssuer } from "../../core/identities/identity-rules.ts";
import { createIssuerKeys, type FetchKeySet, type IssuerKeys } from "./issuer-keys.ts";

/** Returns the keys of an issuer. */
export type KeySets = (issuer: TokenIssuer) => IssuerKeys;

/**
 * Returns the keys of the issuers in a configuration. Keys are kept where their place has not changed: a reload must
 * not refuse callers while the issuer is away.
 */
export function createKeySets(world: World): (issuers: readonly TokenIssuer[], fetch: FetchKeySet) => KeySets {
  let kept: ReadonlyMap<string, IssuerKeys> = new Map();
  return (issuers, fetch) => {
    const next = new Map<string, IssuerKeys>();
    for (const issuer of issuers) {
      const at = placeName(issuer);
      if (next.has(at)) continue;
      const uses = issuer.kind === "spiffe" ? (["sig", "jwt-svid"] as const) : (["sig"] as const);
      next.set(at, kept.get(at) ?? createIssuerKeys({ place: issuer.keys, uses, fetch, world }));
    }
    kept = next;
    const byIssuer = new Map(issuers.map((issuer) => [issuer, next.get(placeName(issuer))]));
    return (issuer) => {
      const found = byIssuer.get(issuer);
      if (found === undefined) throw new Error("the issuer is not one of the configuration");
      return found;
    };
  };
}

/** Returns whether tokens that one issuer has vouched for are those of another one, from the same place. */
export const isSameIssuer = (a: TokenIssuer, b: TokenIssuer): boolean =>
  placeName(a) === placeName(b) && termsOf(a) === termsOf(b);

const termsOf = (issuer: TokenIssuer): string => {
  const { name, audience, issuer: from } = issuer;
  return JSON.stringify([name, audience, from, issuer.kind === "spiffe" ? issuer.trustDomain : undefined]);
};

const placeName = ({ kind, keys }: TokenIssuer): string => JSON.stringify([kind, placeOf(keys)]);

/** A changed file is read again in any case. */
function placeOf(keys: KeySetPlace): KeySetPlace | readonly string[] {
  return keys.kind === "file" ? [keys.path] : keys;
}
