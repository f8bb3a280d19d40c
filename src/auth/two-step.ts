import { withoutRefreshTokenIn } from "./hidden-tokens.ts";
import { noDpopKey } from "./kind-traits.ts";
import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";
import { describedRefresh, expiryOf } from "./token-refresh.ts";

/** The latest token that the connection's fields were exchanged for. */
export const twoStep: AuthScheme<"twoStep"> = {
  ...noDpopKey,
  attach: ({ credentials, rules }) => place({ what: "the token", value: credentials.token }, rules.placement),
  names: ({ placement }) => placedNames(placement),
  expiresAt: ({ expiresAt }) => expiresAt,
  lacksToken: ({ token }) => token === "",
  // The provider's description says where the lifetime is.
  issuedWith: () => undefined,
  canRefresh: ({ refreshToken, fields }) => refreshToken !== "" || Object.keys(fields ?? {}).length > 0,
  hasTokenEndpoint: ({ tokenUrl }) => tokenUrl !== "",
  refresh({ fields, refreshToken, token }) {
    if (fields === undefined || Object.keys(fields).length === 0) return undefined;
    return describedRefresh(refreshToken === "" ? fields : { ...fields, refreshToken }, refreshToken || token);
  },
  refreshed({ expiresAt: _, ...kept }, tokens) {
    const { accessToken: token, raw, refreshToken = kept.refreshToken } = tokens;
    return { ...kept, token, raw, refreshToken, ...expiryOf(tokens) };
  },
  withoutRefreshToken: (credentials) => ({
    ...credentials,
    ...withoutRefreshTokenIn(credentials, credentials.refreshToken),
    refreshToken: "",
  }),
  forRequests: ({ raw: _, fields: __, ...kept }) => ({ ...kept, refreshToken: "" }),
};
