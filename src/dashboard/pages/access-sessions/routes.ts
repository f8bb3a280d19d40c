import type { PageRoute } from "../../state/page-route.ts";

export const accessSessionRoutes: readonly PageRoute[] = [
  {
    path: "/access-sessions",
    title: "Access sessions",
    load: async () => (await import("./sessions-page.tsx")).SessionsPage,
  },
  {
    path: "/access-sessions/:id",
    title: "Access session",
    load: async () => (await import("./session-page.tsx")).SessionPage,
  },
];
