import { accessSessionRoutes } from "./access-sessions/access-session-routes.ts";
import { actionRoutes } from "./action-routes.ts";
import { approvalRoutes } from "./approvals/approval-routes.ts";
import { connectRoutes } from "./connect-routes.ts";
import { connectionRoutes } from "./connection-routes.ts";
import { functionRoutes } from "./function-routes.ts";
import { integrationRoutes } from "./integration-routes.ts";
import type { JsonRoute } from "./json-route.ts";
import { metadataRoutes } from "./metadata-routes.ts";
import { providerRoutes } from "./provider-routes.ts";
import { recordRoutes } from "./record-routes.ts";
import { revocationRoutes } from "./revocation-routes.ts";
import { scriptRoutes } from "./script-routes.ts";
import { syncRoutes } from "./sync-routes.ts";

/** The JSON routes for keys. The first row that matches a request answers it. */
export const jsonRoutes: readonly JsonRoute[] = [
  ...metadataRoutes,
  ...connectionRoutes,
  ...revocationRoutes,
  ...integrationRoutes,
  ...providerRoutes,
  ...connectRoutes,
  ...accessSessionRoutes,
  ...approvalRoutes,
  ...syncRoutes,
  ...actionRoutes,
  ...scriptRoutes,
  ...recordRoutes,
  ...functionRoutes,
];
