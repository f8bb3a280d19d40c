import { Fault } from "../../base/fault.ts";
import { discoveredServer } from "../../core/mcp/discovered-server.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../store/contract.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** Throws if an integration uses the provider. */
export async function requireUnusedProvider(
  { integrations }: Pick<SetupCollections, "integrations">,
  provider: string,
): Promise<void> {
  const [user] = await integrations.pageBy("provider", { under: [provider], limit: 1 });
  if (user === undefined) return;
  throw new Fault("in_use", `the provider "${provider}" is used by the integration "${user.value.key}"`);
}

type OwnProviderRecords = Pick<SetupCollections, "providers">;

/** Whether the provider is the description of this integration's MCP server. */
const belongsTo = ({ mcp }: Provider, { environment, key }: Pick<Integration, "environment" | "key">): boolean =>
  mcp !== undefined && mcp.environment === environment && mcp.integration === key;

/** Throws if the provider belongs to another integration. */
export function requireOwnProvider(integration: Integration, provider: Provider): void {
  if (discoveredServer(provider) === undefined || belongsTo(provider, integration)) return;
  const message = "belongs to another integration; send `mcp_url` to set up its MCP server for this one too";
  throw new Fault("invalid_body", "the integration is not valid", { mistakes: [{ path: ["provider"], message }] });
}

/** Returns the change that stores the integration's own description. */
export async function ownProviderChange({ providers }: OwnProviderRecords, own: Provider): Promise<Change[]> {
  return providers.change({ before: await providers.get(own.name), after: own });
}

/** Returns the change that removes the description with its integration. */
export async function ownProviderRemoval({ providers }: OwnProviderRecords, owner: Integration): Promise<Change[]> {
  const stored = await providers.get(owner.provider);
  return stored !== undefined && belongsTo(stored.value, owner)
    ? providers.change({ before: stored, after: undefined })
    : [];
}
