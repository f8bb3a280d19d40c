import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import { hasCallback, newCallback } from "../../core/callback-address.ts";
import { integrationFields } from "../../core/setup/integration-fields.ts";
import { setupSteps } from "../../core/setup/setup-steps.ts";
import {
  type GetIntegrationSetupRequest,
  type Integration,
  IntegrationSchema,
  type IntegrationSetup,
  IntegrationSetupSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";

type SetupServices = Pick<Broker, "integrations" | "providers" | "webhookUrls" | "authorizations">;
type SetupRequest = Pick<GetIntegrationSetupRequest, "environment" | "provider" | "key">;

/** Returns what an integration needs, whether it exists or not. `environment` is the caller's. */
export async function integrationSetup(
  services: SetupServices,
  { environment, provider: name, key: givenKey }: SetupRequest,
): Promise<IntegrationSetup> {
  const { integrations, providers, webhookUrls, authorizations } = services;
  if (name === "" && givenKey === "")
    throw new Fault("invalid_body", "the request is not valid", {
      mistakes: [{ path: ["provider"], message: "must be set, or the key of an integration" }],
    });
  const key = givenKey || name;
  const existing = await existingIntegration(integrations, { environment, key }, name);
  const provider = await providers.findNow(existing?.provider ?? name);
  const planned = { environment, key, provider: provider.name, callback: newCallback(provider) };
  const integration = existing ?? create(IntegrationSchema, planned);
  const secrets = existing === undefined ? undefined : await integrations.secretsOf({ environment, key });
  const fields = integrationFields(provider, { integration: existing, secrets });
  const { consoleUrl, docsUrl, notification, quickstartClient } = provider;
  return create(IntegrationSetupSchema, {
    provider: provider.name,
    key,
    exists: existing !== undefined,
    fields,
    callbackUrl: hasCallback(provider) ? await authorizations.callbackUrl(integration) : "",
    webhookUrl: notification === undefined ? "" : await webhookUrls.of(integration),
    consoleUrl,
    docsUrl,
    steps: setupSteps(provider, fields),
    hasQuickstart: quickstartClient !== undefined,
  });
}

/** Returns the integration; undefined if there is none, and the request names the provider of a new one. */
async function existingIntegration(
  integrations: SetupServices["integrations"],
  ref: Pick<Integration, "environment" | "key">,
  provider: string,
): Promise<Integration | undefined> {
  try {
    return (await integrations.get(ref)).value;
  } catch (error) {
    if (provider !== "" && error instanceof Fault && error.code === "unknown_provider_config") return undefined;
    throw error;
  }
}
