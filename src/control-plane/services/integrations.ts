import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { noteReveal } from "../../broker/setup/reveals.ts";
import { problemsOf } from "../../broker/system/integration-problems.ts";
import { plainSettings } from "../../core/integration-settings.ts";
import { quickstartApp, withApp } from "../../core/setup/quickstart-app.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Integration, IntegrationService } from "../../gen/latchkey/v1/integration_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { markerOf, watcherOf } from "../server/watch.ts";
import { integrationSetup } from "./integration-setup.ts";

export const integrationService = (broker: Broker): ServiceImpl<typeof IntegrationService> => {
  const { integrations, providers, environments, webhookUrls, authorizations, sharedCallbacks, feeds, audit } = broker;
  const shown = async (integration: Integration): Promise<Integration> => ({
    ...integration,
    settings: plainSettings(integration, providers.lookUp(integration.provider)),
    webhookUrl: await webhookUrls.of(integration),
    callbackUrl: await authorizations.callbackUrl(integration),
    mcpUrl: providers.lookUp(integration.provider)?.mcp?.url ?? "",
    warnings: await problemsOf(integration, { integrations, providers, sharedCallbacks }),
  });

  return {
    async createIntegration({ integration, quickstart }, context) {
      if (integration === undefined) throw new Error("a validated request holds its integration");
      const caller = callerOf(context);
      const environment = await environments.of(caller, integration.environment);
      if (integration.mcpUrl !== "") {
        return { integration: await shown(await broker.mcp.create({ ...integration, environment }, caller.keyId)) };
      }
      const app = quickstart ? quickstartApp(await providers.findNow(integration.provider)) : {};
      const wanted = withApp({ ...integration, environment }, app);
      return { integration: await shown(await integrations.create(wanted, caller.keyId)) };
    },
    async getIntegrationSetup(request, context) {
      const environment = await environments.of(callerOf(context), request.environment);
      return { setup: await integrationSetup(broker, { ...request, environment }) };
    },
    async getIntegration({ environment: requested, key, includeSecrets }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      if (includeSecrets) requireScope(caller, Scope.CREDENTIALS_READ);
      const { value } = await integrations.get({ environment, key });
      const secrets = includeSecrets ? await integrations.secretsOf({ environment, key }) : undefined;
      if (includeSecrets) {
        await noteReveal(audit, caller, { action: "integration_secrets.reveal", environment, targets: [key] });
      }
      const integration = await shown(value);
      return { integration: secrets === undefined ? integration : { ...integration, secrets } };
    },
    async listIntegrations({ environment: requested, provider, ...request }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const { items, next } = await integrations.list({ environment, provider }, pageOf(request));
      return { integrations: await Promise.all(items.map(shown)), nextPageToken: next };
    },
    async updateIntegration({ integration, updateMask, expectedRevision }, context) {
      if (integration === undefined) throw new Error("a validated request holds its integration");
      const caller = callerOf(context);
      const environment = await environments.of(caller, integration.environment);
      const paths = updateMask?.paths ?? [];
      const requested = { integration: { ...integration, environment }, paths, expectedRevision };
      return { integration: await shown(await integrations.update(requested, caller)) };
    },
    async deleteIntegration({ environment: requested, key, expectedRevision }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await integrations.delete({ environment, key, expectedRevision }, caller.keyId);
      return {};
    },
    async discoverIntegration({ environment: requested, key }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      const { integration, issuerChanged } = await broker.mcp.discover({ environment, key }, caller.keyId);
      return { integration: await shown(integration), issuerChanged };
    },
    async *watchIntegrations({ environment: requested, fromRevision }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const request = { under: [environment], from: Number(fromRevision), changesOnly: false, ...watcherOf(context) };
      for await (const step of feeds.integrations(request)) {
        if (step.kind === "put") yield { event: { case: "put" as const, value: await shown(step.value) } };
        else if (step.kind === "deleted") {
          const [, key = ""] = step.parts;
          yield { event: { case: "deleted" as const, value: { environment, key, revision: BigInt(step.revision) } } };
        } else yield { event: { case: "marker" as const, value: markerOf(step) } };
      }
    },
  };
};
