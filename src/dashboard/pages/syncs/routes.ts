import type { PageRoute } from "../../state/page-route.ts";

export const syncRoutes: readonly PageRoute[] = [
  { path: "/scripts", title: "Scripts", load: async () => (await import("./scripts-page.tsx")).ScriptsPage },
  {
    path: "/scripts/:integration/:kind/:name",
    title: "Script",
    load: async () => (await import("./script-page.tsx")).ScriptPage,
  },
  { path: "/runs", title: "Runs", load: async () => (await import("./runs-page.tsx")).RunsPage },
  { path: "/runs/:id", title: "Run", load: async () => (await import("./run-page.tsx")).RunPage },
  {
    path: "/records/:integration/:connection",
    title: "Records",
    load: async () => (await import("./records-page.tsx")).RecordsPage,
  },
];
