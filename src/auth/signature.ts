import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** The token that was last made of the user name and the password. */
export const signature: AuthScheme<"signature"> = {
  attach: ({ credentials, rules }) => place({ what: "the token", value: credentials.token }, rules.placement),
  names: ({ placement }) => placedNames(placement),
};
