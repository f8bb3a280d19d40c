import { version as sdkVersion } from "../../base/version.ts";
import type { Broker } from "../../broker/broker.ts";
import { openAIFunctions, standardConfig } from "../../core/scripts/script-config.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { callerIn, type Route } from "../server/routes.ts";

/** Routes that the SDK uses for scripts. */
export function scriptRoutes({ scripts, integrations, variables }: Broker): Route[] {
  /** Returns providers by integration, for the environment of the scripts. */
  async function providersIn(environment: string): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>();
    let token = "";
    do {
      const { items, next } = await integrations.list({ environment, provider: "" }, { size: 1_000, token });
      for (const { key, provider } of items) found.set(key, provider);
      token = next;
    } while (token !== "");
    return found;
  }

  return [
    {
      method: "GET",
      path: "/environment-variables",
      // Environment variables may be secrets.
      scope: Scope.CREDENTIALS_READ,
      answer(request) {
        const { environment } = callerIn(request);
        request.query.end();
        return { status: 200, body: variables.of(environment) };
      },
    },
    {
      method: "GET",
      path: "/scripts/config",
      scope: Scope.CONNECTIONS_READ,
      async answer(request) {
        const { environment } = callerIn(request);
        const format = request.query.text("format") ?? "nango";
        if (format !== "nango" && format !== "openai") request.query.refuse("format", "must be nango or openai");
        request.query.end();
        const all = scripts.all();
        if (format === "openai") return { status: 200, body: { data: openAIFunctions(all) } };
        const providers = await providersIn(environment);
        const body = standardConfig(all, { sdkVersion, providerOf: (integration) => providers.get(integration) });
        return { status: 200, body };
      },
    },
  ];
}
