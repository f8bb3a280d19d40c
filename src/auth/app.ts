import { withoutRefreshTokenIn } from "./hidden-tokens.ts";
import { noDpopKey } from "./kind-traits.ts";
import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";
import { describedRefresh, expiryOf } from "./token-refresh.ts";

/** The current token of an installed app. */
export const app: AuthScheme<"app"> = {
  ...noDpopKey,
  attach: ({ credentials, rules }) =>
    place({ what: "the installation's access token", value: credentials.accessToken }, rules.placement),
  names: ({ placement }) => placedNames(placement),
  expiresAt: ({ expiresAt }) => expiresAt,
  // Shown as it is, even without a token.
  lacksToken: () => false,
  issuedWith: ({ raw }) => raw,
  canRefresh: () => true,
  hasTokenEndpoint: ({ tokenUrl }) => tokenUrl !== "",
  refresh({ appId, installationId, privateKey, accessToken }) {
    const fields = { app_id: appId, installation_id: installationId, private_key: privateKey };
    return describedRefresh(fields, accessToken);
  },
  refreshed({ expiresAt: _, ...kept }, tokens) {
    const { accessToken, raw } = tokens;
    return { ...kept, accessToken, raw, ...expiryOf(tokens) };
  },
  withoutRefreshToken: (credentials) => ({ ...credentials, ...withoutRefreshTokenIn(credentials, "") }),
  forRequests: ({ raw: _, ...kept }) => ({ ...kept, privateKey: "" }),
};
