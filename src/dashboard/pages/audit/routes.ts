import type { PageRoute } from "../../state/page-route.ts";

export const auditRoutes: readonly PageRoute[] = [
  { path: "/audit", title: "Audit", load: async () => (await import("./audit-page.tsx")).AuditPage },
];
