import type { AuthScheme } from "./scheme.ts";

/** A provider that asks for nothing gets nothing. */
export const none: AuthScheme<"none"> = {
  attach: () => ({ kind: "fixed", headers: [], query: [] }),
  names: () => ({ headers: [], query: [] }),
};
