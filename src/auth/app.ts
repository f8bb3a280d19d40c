import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** The current token of an installed app. */
export const app: AuthScheme<"app"> = {
  attach: ({ credentials, rules }) =>
    place({ what: "the installation's access token", value: credentials.accessToken }, rules.placement),
  names: ({ placement }) => placedNames(placement),
};
