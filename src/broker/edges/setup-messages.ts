import { create } from "@bufbuild/protobuf";
import { edgeIntegration, edgeProvider, edgeSecrets } from "../../core/edges/edge-integration.ts";
import { edgeVersion } from "../../core/edges/edge-version.ts";
import {
  type EdgeIntegration,
  EdgeIntegrationSchema,
  type EdgeProvider,
  EdgeProviderSchema,
} from "../../gen/latchkey/v1/edge_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";

/** An integration with all that its requests depend on. */
export type UsedSetup = Pick<LiveConnection, "integration" | "secrets" | "provider">;

const providers = new WeakMap<Provider, EdgeProvider>();

/** Returns what edges get of a provider. Computed once for each change. */
export function providerMessage(provider: Provider): EdgeProvider {
  const known = providers.get(provider);
  if (known !== undefined) return known;
  const made = create(EdgeProviderSchema, { name: provider.name, provider: edgeProvider(provider) });
  made.version = edgeVersion(EdgeProviderSchema, made);
  providers.set(provider, made);
  return made;
}

interface MadeIntegration extends UsedSetup {
  readonly message: EdgeIntegration;
}

const integrations = new WeakMap<Integration, MadeIntegration>();

/** Returns what edges get of an integration. Computed once for each change of it, its secrets or its provider. */
export function integrationMessage(used: UsedSetup): EdgeIntegration {
  const { integration, secrets, provider } = used;
  const known = integrations.get(integration);
  if (known !== undefined && known.secrets === secrets && known.provider === provider) return known.message;
  const needed = edgeSecrets(secrets, provider);
  const message = create(EdgeIntegrationSchema, {
    key: integration.key,
    integration: edgeIntegration(integration),
    ...(needed && { secrets: needed }),
  });
  message.version = edgeVersion(EdgeIntegrationSchema, message);
  integrations.set(integration, { integration, secrets, provider, message });
  return message;
}
