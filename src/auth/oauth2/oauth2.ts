import { place, placedNames } from "../placement.ts";
import type { AuthScheme } from "../scheme.ts";
import { boundToken, dpopHeaderNames } from "./dpop.ts";

/** An access token on behalf of an end user: a bearer token (RFC 6750), or bound to a key (RFC 9449). */
export const oauth2: AuthScheme<"oauth2"> = {
  attach: ({ credentials: { accessToken, dpopKey }, rules }) =>
    dpopKey === ""
      ? place({ what: "the access token", value: accessToken }, rules.placement)
      : boundToken({ token: accessToken, key: dpopKey }),
  names: ({ placement, dpop }) => (dpop ? { headers: dpopHeaderNames, query: [] } : placedNames(placement)),
};
