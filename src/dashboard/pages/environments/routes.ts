import type { PageRoute } from "../../state/page-route.ts";

export const environmentRoutes: readonly PageRoute[] = [
  {
    path: "/environments",
    title: "Environments and keys",
    load: async () => (await import("./environments-page.tsx")).EnvironmentsPage,
  },
  {
    path: "/environments/:name",
    title: "Environment",
    load: async () => (await import("./environment-page.tsx")).EnvironmentPage,
  },
];
