import type { PageRoute } from "../../state/page-route.ts";

export const webhookRoutes: readonly PageRoute[] = [];
