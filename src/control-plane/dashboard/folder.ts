import { fileURLToPath } from "node:url";

/** Returns the folder of the built pages: beside the bundle in the package, and in the cache of a checkout. */
export const dashboardFolder = (): string =>
  fileURLToPath(
    import.meta.url.endsWith(".ts")
      ? new URL("../../../node_modules/.cache/dashboard/", import.meta.url)
      : new URL("./dashboard/", import.meta.url),
  );
