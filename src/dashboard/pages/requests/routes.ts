import type { PageRoute } from "../../state/page-route.ts";

export const requestRoutes: readonly PageRoute[] = [];
