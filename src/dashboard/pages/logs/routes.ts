import type { PageRoute } from "../../state/page-route.ts";

export const logRoutes: readonly PageRoute[] = [];
