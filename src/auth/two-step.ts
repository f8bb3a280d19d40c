import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** The latest token that the connection's fields were exchanged for. */
export const twoStep: AuthScheme<"twoStep"> = {
  attach: ({ credentials, rules }) => place({ what: "the token", value: credentials.token }, rules.placement),
  names: ({ placement }) => placedNames(placement),
};
