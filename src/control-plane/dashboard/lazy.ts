import type { World } from "../../base/world.ts";
import type { DashboardSignIn, PortPages } from "../server/port-pages.ts";
import type { Dashboard } from "./dashboard.ts";

interface LazyDashboardOptions {
  /** The listener itself speaks TLS. */
  readonly isTls: boolean;
  readonly world: World;
}

/** Serves the dashboard. Its code is loaded with the first request for it: most replicas never show it. */
export function lazyDashboard({ isTls, world }: LazyDashboardOptions): PortPages {
  let opened: DashboardSignIn | undefined;
  let loaded: Promise<Dashboard> | undefined;
  async function load(): Promise<Dashboard> {
    const { createDashboard } = await import("./dashboard.ts");
    return createDashboard({ isTls, world, opened: () => opened });
  }
  return {
    isPage: ({ url = "" }) => url === "/" || url === "/ui" || url.startsWith("/ui/") || url.startsWith("/ui?"),
    isOpenToLinks: ({ url = "", method }) =>
      (method === "GET" || method === "HEAD") && !/^\/ui\/session(?:\?|$)/.test(url),
    open(signIn) {
      opened = signIn;
    },
    answer(request, response) {
      loaded ??= load();
      loaded.then(
        (dashboard) => dashboard(request, response),
        (err: unknown) => {
          loaded = undefined;
          world.log.error("the dashboard could not be loaded", { err });
          response.destroy();
        },
      );
    },
  };
}
