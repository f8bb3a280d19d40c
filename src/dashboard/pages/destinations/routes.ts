import type { PageRoute } from "../../state/page-route.ts";

export const destinationRoutes: readonly PageRoute[] = [];
