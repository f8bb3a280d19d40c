import type { PageRoute } from "../../state/page-route.ts";

export const environmentRoutes: readonly PageRoute[] = [];
