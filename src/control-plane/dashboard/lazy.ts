import type { World } from "../../base/world.ts";
import type { PortPages } from "../server/port-pages.ts";
import type { Dashboard } from "./dashboard.ts";

/** Serves the dashboard. Its code is loaded with the first request for it: most replicas never show it. */
export function lazyDashboard({ world }: { readonly world: World }): PortPages {
  let loaded: Promise<Dashboard> | undefined;
  async function load(): Promise<Dashboard> {
    const { createDashboard } = await import("./dashboard.ts");
    return createDashboard({ world });
  }
  return {
    isPage: ({ url = "" }) => url === "/" || url === "/ui" || url.startsWith("/ui/") || url.startsWith("/ui?"),
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
