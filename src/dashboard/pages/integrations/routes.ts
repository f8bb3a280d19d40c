import type { PageRoute } from "../../state/page-route.ts";

export const integrationRoutes: readonly PageRoute[] = [];
