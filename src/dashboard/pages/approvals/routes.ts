import type { PageRoute } from "../../state/page-route.ts";

export const approvalRoutes: readonly PageRoute[] = [
  { path: "/approvals", title: "Approvals", load: async () => (await import("./approvals-page.tsx")).ApprovalsPage },
];
