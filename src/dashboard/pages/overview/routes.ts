import type { PageRoute } from "../../state/page-route.ts";

export const overviewRoutes: readonly PageRoute[] = [
  { path: "/", title: "Overview", load: async () => (await import("./overview-page.tsx")).OverviewPage },
];
