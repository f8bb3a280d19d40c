import type { PageRoute } from "../../state/page-route.ts";

export const connectionRoutes: readonly PageRoute[] = [];
