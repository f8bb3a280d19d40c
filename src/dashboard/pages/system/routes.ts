import type { PageRoute } from "../../state/page-route.ts";

export const systemRoutes: readonly PageRoute[] = [];
