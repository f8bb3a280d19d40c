import type { Broker } from "../broker/broker.ts";
import { connectionRoutes } from "./connection-routes.ts";
import { integrationRoutes } from "./integration-routes.ts";
import { laterRoutes } from "./later-routes.ts";
import { metadataRoutes } from "./metadata-routes.ts";
import { providerRoutes } from "./provider-routes.ts";
import type { Route } from "./routes.ts";

/** The JSON routes: rows over the verbs of the broker. The first that fits answers. */
export const restRoutes = (broker: Broker): Route[] => [
  {
    method: "GET",
    path: "/health",
    scope: undefined,
    isPublic: true,
    answer: () => ({ status: 200, body: { result: "ok" } }),
  },
  ...metadataRoutes(broker),
  ...connectionRoutes(broker),
  ...integrationRoutes(broker),
  ...providerRoutes(broker),
  ...laterRoutes(),
];
