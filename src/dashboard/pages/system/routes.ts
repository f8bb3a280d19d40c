import type { PageRoute } from "../../state/page-route.ts";

export const systemRoutes: readonly PageRoute[] = [
  { path: "/system", title: "System", load: async () => (await import("./system-page.tsx")).SystemPage },
];
