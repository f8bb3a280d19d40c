import { create } from "@bufbuild/protobuf";
import { type Integration, IntegrationSecretsSchema, OAuthAppSchema } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import { createIntegrationRecords } from "../setup/integration-records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { mcpCallback } from "./client-document.ts";
import { requireHttps } from "./discovery-requests.ts";
import { withGivenClient } from "./mcp-integrations.ts";
import { issuerIn, mcpProviderName, undiscoveredProvider } from "./mcp-provider.ts";

/** MCP integrations of the configuration file. They are discovered in the background: a start does not wait for them. */
export interface McpDeclarations {
  /** Returns the integration with its provider; any other as it is. */
  named(integration: Integration): Integration;
  /** Stores a description for the integration, unless there is one, and returns it with the client that it has. */
  prepare(integration: Integration): Promise<Integration>;
}

interface McpDeclarationsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly now: () => number;
}

export function createMcpDeclarations({ store, collections, now }: McpDeclarationsOptions): McpDeclarations {
  const { providers, integrations } = collections;
  const records = createIntegrationRecords({ store, collections });

  const ownerOf = ({ environment, key, mcpUrl }: Integration) => ({
    environment,
    integration: key,
    url: requireHttps(mcpUrl, `the MCP server of the integration "${key}"`).href,
  });

  return {
    named: (integration) =>
      integration.mcpUrl === "" ? integration : { ...integration, provider: mcpProviderName(ownerOf(integration)) },
    async prepare(integration) {
      if (integration.mcpUrl === "") return integration;
      const owner = ownerOf(integration);
      const { result: provider } = await transact(store, async () => {
        const stored = await providers.get(mcpProviderName(owner));
        if (stored !== undefined) return { changes: [], result: stored.value };
        const made = undiscoveredProvider(owner, now());
        return { changes: providers.change({ before: undefined, after: made }), result: made };
      });
      await store.caughtUp();
      const before = (await integrations.get(owner.environment, owner.integration))?.value;
      const named = { ...integration, provider: provider.name, callback: mcpCallback };
      const known = before?.oauth;
      const given = named.oauth?.clientId ?? "";
      if (given !== "" && given !== known?.clientId) return withGivenClient(named, issuerIn(provider));
      if (known?.registration === undefined) return named;
      // The client that was registered stays: the file knows nothing of it.
      const { clientId, registration } = known;
      const oauth = { ...(named.oauth ?? create(OAuthAppSchema)), clientId, registration };
      if (given !== "") return { ...named, oauth };
      const former = await records.secretsOf({ environment: owner.environment, key: owner.integration });
      const secrets = {
        ...(named.secrets ?? create(IntegrationSecretsSchema)),
        clientSecret: former?.clientSecret ?? "",
      };
      return { ...named, oauth, secrets };
    },
  };
}
