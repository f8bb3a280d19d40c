import type { PageRoute } from "../../state/page-route.ts";

export const overviewRoutes: readonly PageRoute[] = [];
