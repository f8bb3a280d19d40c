import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { place, placedNames } from "./placement.ts";
import type { AuthScheme } from "./scheme.ts";

/** A long-lived key, placed as the provider requires. */
export const apiKey: AuthScheme<"apiKey"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach: ({ credentials, rules }) => place({ what: "the API key", value: credentials.apiKey }, rules),
  names: placedNames,
};
