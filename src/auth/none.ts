import type { AuthScheme } from "./scheme.ts";

/** The scheme of providers that need no credentials. */
export const none: AuthScheme<"none"> = {
  attach: () => ({ kind: "fixed", headers: [], query: [] }),
  names: () => ({ headers: [], query: [] }),
};
