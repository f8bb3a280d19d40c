import type { PageRoute } from "../../state/page-route.ts";

export const requestRoutes: readonly PageRoute[] = [
  { path: "/requests", title: "Requests", load: async () => (await import("./requests-page.tsx")).RequestsPage },
  { path: "/requests/try", title: "Try a request", load: async () => (await import("./try-page.tsx")).TryPage },
];
