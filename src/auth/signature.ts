import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** The latest token that was obtained with the user name and password. */
export const signature: AuthScheme<"signature"> = {
  attach: ({ credentials, rules }) => place({ what: "the token", value: credentials.token }, rules.placement),
  names: ({ placement }) => placedNames(placement),
};
