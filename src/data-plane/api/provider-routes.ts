import type { Broker } from "../../broker/broker.ts";
import { providerJson } from "../../core/dialect/sdk-json.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Route } from "../server/routes.ts";

export function providerRoutes({ providers }: Broker): Route[] {
  return [
    {
      method: "GET",
      path: "/providers",
      scope: Scope.INTEGRATIONS_READ,
      answer({ query }) {
        const search = query.text("search") ?? "";
        query.end();
        const { items } = providers.list({ search }, { size: Number.MAX_SAFE_INTEGER, token: "" });
        return { status: 200, body: { data: items.map(providerJson) } };
      },
    },
    {
      method: "GET",
      path: "/providers/:name",
      scope: Scope.INTEGRATIONS_READ,
      answer: async ({ params }) => ({
        status: 200,
        body: { data: providerJson(await providers.findNow(params["name"] ?? "")) },
      }),
    },
    {
      method: "GET",
      path: "/providers/:name/templates",
      scope: Scope.INTEGRATIONS_READ,
      async answer({ params }) {
        await providers.findNow(params["name"] ?? "");
        return { status: 200, body: { data: [] } };
      },
    },
  ];
}
