import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** An access token on behalf of an end user (RFC 6750). */
export const oauth2: AuthScheme<"oauth2"> = {
  attach: ({ credentials, rules }) =>
    place({ what: "the access token", value: credentials.accessToken }, rules.placement),
  names: ({ placement }) => placedNames(placement),
};
