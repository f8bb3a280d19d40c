import { accessSessionRoutes } from "../pages/access-sessions/routes.ts";
import { approvalRoutes } from "../pages/approvals/routes.ts";
import { auditRoutes } from "../pages/audit/routes.ts";
import { brandingRoutes } from "../pages/branding/routes.ts";
import { channelRoutes } from "../pages/channels/routes.ts";
import { connectRoutes } from "../pages/connect/routes.ts";
import { connectionRoutes } from "../pages/connections/routes.ts";
import { destinationRoutes } from "../pages/destinations/routes.ts";
import { environmentRoutes } from "../pages/environments/routes.ts";
import { integrationRoutes } from "../pages/integrations/routes.ts";
import { logRoutes } from "../pages/logs/routes.ts";
import { overviewRoutes } from "../pages/overview/routes.ts";
import { requestRoutes } from "../pages/requests/routes.ts";
import { syncRoutes } from "../pages/syncs/routes.ts";
import { systemRoutes } from "../pages/system/routes.ts";
import { webhookRoutes } from "../pages/webhooks/routes.ts";
import type { PageRoute } from "../state/page-route.ts";

/** All pages. Of two that fit a path, the first one is shown. */
export const routes: readonly PageRoute[] = [
  ...overviewRoutes,
  ...integrationRoutes,
  ...brandingRoutes,
  ...connectionRoutes,
  ...connectRoutes,
  ...channelRoutes,
  ...webhookRoutes,
  ...destinationRoutes,
  ...syncRoutes,
  ...accessSessionRoutes,
  ...approvalRoutes,
  ...requestRoutes,
  ...logRoutes,
  ...auditRoutes,
  ...environmentRoutes,
  ...systemRoutes,
];
