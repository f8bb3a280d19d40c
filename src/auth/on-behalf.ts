import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { placedNames } from "./placement.ts";
import { type AuthScheme, CannotAttach } from "./scheme.ts";

/**
 * A connection without credentials of its own. Requests carry the token of the caller's user, as credentials of the kind
 * `oauth2Client` that are never stored.
 */
export const onBehalf: AuthScheme<"onBehalf"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach() {
    throw new CannotAttach("requests must bring the token of the user that they act for");
  },
  names: ({ authorizationServer }) => placedNames(authorizationServer?.placement),
};
