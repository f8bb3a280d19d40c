import type { Authentication } from "../setup/authentication.ts";
import type { CallerIdentities } from "./caller-identities.ts";
import { isTokenForm } from "./token-verifier.ts";

/** Adds identities to keys: a token travels where a key travels, and a connection may prove its caller without either. */
export function withIdentities<
  A extends Pick<Authentication, "authenticate" | "callerOfPeer" | "isCurrent" | "currentCaller">,
>(access: A, identities: CallerIdentities): A {
  return {
    ...access,
    authenticate: (secret) =>
      identities.takesTokens() && isTokenForm(secret)
        ? identities.callerWithToken(secret)
        : access.authenticate(secret),
    callerOfPeer: identities.callerOfPeer,
    isCurrent: (caller) => (caller.identity === undefined ? access.isCurrent(caller) : identities.isCurrent(caller)),
    currentCaller: (caller) =>
      caller.identity === undefined ? access.currentCaller(caller) : identities.currentCaller(caller),
  };
}
