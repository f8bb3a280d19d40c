import type { PageRoute } from "../../state/page-route.ts";

export const channelRoutes: readonly PageRoute[] = [];
