import { isConfusable } from "../../core/callback-address.ts";
import { missingSettings } from "../../core/integration-settings.ts";
import {
  clientMissing,
  integrationWarnings,
  mcpWarnings,
  settingsMissing,
  sharedCallback,
  webhooksUnproven,
} from "../../core/integration-warnings.ts";
import { wantsWebhookSecret } from "../../core/notifications/proof.ts";
import type { Integration, IntegrationWarning } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { SharedCallbacks } from "../setup/shared-callbacks.ts";

interface IntegrationProblemsOptions {
  readonly integrations: Pick<Integrations, "secretsOf">;
  readonly providers: Pick<Providers, "lookUp">;
  readonly sharedCallbacks: Pick<SharedCallbacks, "othersThan">;
}

/** Returns all warnings about an integration: of its provider's data, its secrets, and the integrations beside it. */
export async function problemsOf(
  integration: Integration,
  { integrations, providers, sharedCallbacks }: IntegrationProblemsOptions,
): Promise<IntegrationWarning[]> {
  const provider = providers.lookUp(integration.provider);
  const shared = isConfusable(integration, provider)
    ? sharedCallback(integration, provider, sharedCallbacks.othersThan(integration, 3))
    : undefined;
  const warnings = [
    ...[clientMissing(integration, provider)].filter((one) => one !== undefined),
    ...integrationWarnings(integration, provider),
    ...mcpWarnings(integration, provider),
    ...[shared].filter((one) => one !== undefined),
  ];
  if (provider === undefined) return warnings;
  // Secrets are decrypted only if a warning depends on them.
  const wantsSecret = wantsWebhookSecret(provider);
  const wantsSettings = missingSettings(provider, { ...integration, secrets: undefined }).some(({ secret }) => secret);
  const secrets = wantsSecret || wantsSettings ? await integrations.secretsOf(integration) : undefined;
  const { webhookSecret = "", clientSecret = "" } = secrets ?? {};
  return [
    ...warnings,
    ...settingsMissing(integration, provider, secrets),
    ...(wantsSecret ? [webhooksUnproven(provider, { webhookSecret, clientSecret })] : []).filter(
      (one) => one !== undefined,
    ),
  ];
}
