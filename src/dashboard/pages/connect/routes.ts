import type { PageRoute } from "../../state/page-route.ts";

export const connectRoutes: readonly PageRoute[] = [];
