import { shownWhole } from "./kind-traits.ts";
import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";
import { describedRefresh, expiryOf } from "./token-refresh.ts";

/** The latest token that was obtained with the user name and password. */
export const signature: AuthScheme<"signature"> = {
  ...shownWhole,
  attach: ({ credentials, rules }) => place({ what: "the token", value: credentials.token }, rules.placement),
  names: ({ placement }) => placedNames(placement),
  expiresAt: ({ expiresAt }) => expiresAt,
  // Shown as it is, even without a token.
  lacksToken: () => false,
  // The provider's description says where the lifetime is.
  issuedWith: () => undefined,
  canRefresh: () => true,
  hasTokenEndpoint: ({ tokenUrl }) => tokenUrl !== "",
  refresh: ({ username, password, token }) => describedRefresh({ username, password }, token),
  refreshed: ({ expiresAt: _, ...kept }, tokens) => ({ ...kept, token: tokens.accessToken, ...expiryOf(tokens) }),
  forRequests: (credentials) => ({ ...credentials, username: "", password: "" }),
};
