import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import type { AuthScheme } from "./scheme.ts";

/** The scheme of providers that need no credentials. */
export const none: AuthScheme<"none"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  attach: () => ({ kind: "fixed", headers: [], query: [] }),
  names: () => ({ headers: [], query: [] }),
};
