import { schemeOf } from "../auth/schemes.ts";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/**
 * Removes the refresh token from credentials, for callers that did not ask for the refresh token. Removes fields at any
 * depth by name and, where a provider uses another name, by value.
 */
export const withoutRefreshToken = (credentials: Credentials): Credentials =>
  viewOf(credentials, "withoutRefreshToken");

/**
 * Removes the DPoP key that the token is bound to: a caller that asks only for the token does not want to move the
 * connection elsewhere.
 */
export const withoutDpopKey = (credentials: Credentials): Credentials => viewOf(credentials, "withoutDpopKey");

function viewOf(credentials: Credentials, view: "withoutRefreshToken" | "withoutDpopKey"): Credentials {
  const { kind } = credentials;
  if (kind.case === undefined) return credentials;
  const value = schemeOf(kind.case)[view](kind.value);
  // A scheme returns credentials of its own kind.
  return value === kind.value
    ? credentials
    : { ...credentials, kind: { case: kind.case, value } as Credentials["kind"] };
}

/** Returns what requests of a provider need of credentials, without what only a refresh needs. */
export function credentialsForRequests(credentials: Credentials, { auth }: Pick<Provider, "auth">): Credentials {
  const { kind } = credentials;
  if (kind.case === undefined) return credentials;
  const rules = kind.case === auth.case ? auth.value : undefined;
  const value = schemeOf(kind.case).forRequests(kind.value, rules);
  return { ...credentials, kind: { case: kind.case, value } as Credentials["kind"] };
}
