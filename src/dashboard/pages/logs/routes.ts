import type { PageRoute } from "../../state/page-route.ts";

export const logRoutes: readonly PageRoute[] = [
  { path: "/logs", title: "Logs", load: async () => (await import("./logs-page.tsx")).LogsPage },
  { path: "/logs/:id", title: "Log", load: async () => (await import("./log-page.tsx")).LogPage },
];
