import type { PageRoute } from "../../state/page-route.ts";

export const destinationRoutes: readonly PageRoute[] = [
  {
    path: "/destinations",
    title: "Destinations",
    load: async () => (await import("./destinations-page.tsx")).DestinationsPage,
  },
];
