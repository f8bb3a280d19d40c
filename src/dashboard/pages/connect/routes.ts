import type { PageRoute } from "../../state/page-route.ts";

export const connectRoutes: readonly PageRoute[] = [
  { path: "/connect", title: "Connect", load: async () => (await import("./connect-page.tsx")).ConnectPage },
];
