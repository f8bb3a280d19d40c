import type { PageRoute } from "../../state/page-route.ts";

export const connectionRoutes: readonly PageRoute[] = [
  {
    path: "/connections",
    title: "Connections",
    load: async () => (await import("./connections-page.tsx")).ConnectionsPage,
  },
  {
    path: "/connections/:integration/:id",
    title: "Connection",
    load: async () => (await import("./detail/connection-page.tsx")).ConnectionPage,
  },
];
