import type { Integration, IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { KnownCounts } from "./connection-counts.tsx";
import { IntegrationFacts, requestedScopes } from "./integration-facts.tsx";
import { McpClientCard, McpServerFacts } from "./mcp-server.tsx";
import { RecentActivity } from "./recent-activity.tsx";
import { SetupChecklist } from "./setup-checklist.tsx";

export interface WholeIntegration {
  readonly integration: Integration;
  readonly setup: IntegrationSetup;
  readonly provider: Provider;
}

interface SetupTabProps {
  readonly whole: WholeIntegration;
  readonly counts: KnownCounts;
  readonly reload: () => void;
  /** Changes when the recent activity has to be read again. */
  readonly round: string;
}

/** What an integration is, and what to do elsewhere: at the provider, or at MCP clients. */
export function SetupTab({ whole: { integration, setup, provider }, counts, reload, round }: SetupTabProps) {
  const { environment, key, mcpUrl } = integration;
  const isMcp = mcpUrl !== "";
  return (
    <div class={isMcp ? "columns setup-columns" : "columns"}>
      <div>
        {isMcp && <McpServerFacts integration={integration} provider={provider} reload={reload} />}
        <IntegrationFacts integration={integration} setup={setup} counts={counts} />
        <RecentActivity environment={environment} integration={key} round={round} />
      </div>
      {isMcp ? (
        <McpClientCard integration={integration} />
      ) : (
        <SetupChecklist setup={setup} provider={provider} scopes={requestedScopes(integration, setup)} />
      )}
    </div>
  );
}
