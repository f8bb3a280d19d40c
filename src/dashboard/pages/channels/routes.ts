import type { PageRoute } from "../../state/page-route.ts";

export const channelRoutes: readonly PageRoute[] = [
  { path: "/channels", title: "Channels", load: async () => (await import("./channels-page.tsx")).ChannelsPage },
];
