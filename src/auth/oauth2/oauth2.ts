import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type FreeParts, withoutRefreshTokenIn } from "../hidden-tokens.ts";
import { place, placedNames } from "../placement.ts";
import type { AuthScheme, RulesOf } from "../scheme.ts";
import { expiryOf, ownClient } from "../token-refresh.ts";
import { boundToken, dpopHeaderNames } from "./dpop.ts";
import { hasOAuth2Endpoint } from "./token-endpoint.ts";

/** An access token on behalf of an end user: a bearer token (RFC 6750), or bound to a key (RFC 9449). */
export const oauth2: AuthScheme<"oauth2"> = {
  attach({ credentials: { accessToken, dpopKey, furtherTokens }, rules, token }) {
    if (token !== undefined) {
      const value = Object.hasOwn(furtherTokens, token) ? (furtherTokens[token]?.accessToken ?? "") : "";
      return place({ what: `the token ${token}`, value }, rules.placement);
    }
    return dpopKey === ""
      ? place({ what: "the access token", value: accessToken }, rules.placement)
      : boundToken({ token: accessToken, key: dpopKey });
  },
  names: ({ placement, dpop }) => (dpop ? { headers: dpopHeaderNames, query: [] } : placedNames(placement)),
  expiresAt: ({ expiresAt }) => expiresAt,
  lacksToken: ({ accessToken }) => accessToken === "",
  issuedWith: ({ raw }) => raw,
  canRefresh({ refreshToken, expiresAt }, { rules, nowMs }) {
    const isValid = expiresAt === undefined || timestampMs(expiresAt) > nowMs;
    return refreshToken !== "" || (isExchanged(rules) && isValid);
  },
  hasTokenEndpoint: hasOAuth2Endpoint,
  refresh({ accessToken, refreshToken, configOverride, dpopKey }, { rules }) {
    const sender = { client: ownClient(configOverride), dpopKey: dpopKey || undefined };
    if (isExchanged(rules) && accessToken !== "") {
      return { ...sender, grant: { type: "renewal", accessToken }, spent: accessToken };
    }
    if (refreshToken === "") return undefined;
    return { ...sender, grant: { type: "refresh_token", refreshToken }, spent: refreshToken };
  },
  refreshed({ expiresAt: _, ...kept }, tokens) {
    // A new token without a key is bound to none: providers refuse a bearer token that comes with a DPoP proof.
    const { accessToken, raw, refreshToken = kept.refreshToken, dpopKey = "" } = tokens;
    // A refresh brings only the main token: `raw` keeps showing the others.
    const hasOthers = Object.keys(kept.furtherTokens).length > 0;
    const shown = hasOthers ? { ...kept.raw, ...raw } : raw;
    return { ...kept, accessToken, raw: shown, refreshToken, dpopKey, ...expiryOf(tokens) };
  },
  withoutRefreshToken(credentials) {
    const named = Object.entries(credentials.furtherTokens);
    const hidden = [credentials.refreshToken, ...named.map(([, { refreshToken }]) => refreshToken)];
    return {
      ...credentials,
      ...hidden.reduce<FreeParts>(withoutRefreshTokenIn, { raw: credentials.raw }),
      refreshToken: "",
      furtherTokens: Object.fromEntries(named.map(([name, token]) => [name, { ...token, refreshToken: "" }])),
    };
  },
  dpopKeyOf: ({ dpopKey }) => dpopKey,
  withoutDpopKey: (credentials) => ({ ...credentials, dpopKey: "" }),
  forRequests({ raw: _, configOverride, furtherTokens, ...kept }) {
    const further = Object.entries(furtherTokens).map(([name, token]) => [name, { ...token, refreshToken: "" }]);
    return {
      ...kept,
      refreshToken: "",
      furtherTokens: Object.fromEntries(further),
      // Descriptions may name the client ID in headers.
      ...(configOverride === undefined ? {} : { configOverride: { ...configOverride, clientSecret: "" } }),
    };
  },
};

/** Whether the provider exchanges an unexpired access token for another. */
const isExchanged = (rules: RulesOf<"oauth2"> | undefined): boolean => rules?.renewal?.accessToken === true;
