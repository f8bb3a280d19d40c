import type { PageRoute } from "../../state/page-route.ts";

export const syncRoutes: readonly PageRoute[] = [];
