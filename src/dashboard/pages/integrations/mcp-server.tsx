import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Facts } from "../../components/page.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { integrations } from "../../state/clients.ts";

interface McpServerProps {
  readonly integration: Integration;
  readonly provider: Provider;
  readonly reload: () => void;
}

/** What Latchkey knows of the MCP server of an integration. */
export function McpServerFacts({ integration, provider, reload }: McpServerProps) {
  const acting = useAct();
  const { environment, key, mcpUrl } = integration;
  const readAgain = () =>
    acting.run(async () => {
      await integrations.discoverIntegration({ environment, key });
      reload();
    }, "Read the server's metadata");
  return (
    <div class="card mcp-server">
      <Facts
        rows={[
          ["MCP server", <code key="url">{mcpUrl}</code>],
          ["Authorization server", issuerOf(provider)],
          ["Client", clientText(integration, provider)],
          [
            "Metadata read",
            <span key="read" class="beside">
              <Time at={provider.mcp?.discoveredAt} none="Never" />
              <Button isSmall needs={Scope.INTEGRATIONS_WRITE} isBusy={acting.isBusy} onClick={() => void readAgain()}>
                Read again
              </Button>
            </span>,
          ],
        ]}
      />
    </div>
  );
}

const issuerOf = ({ auth }: Provider): string =>
  auth.case === "oauth2" ? auth.value.issuer : "None: the server answers everyone";

function clientText({ oauth }: Integration, { auth, mcp }: Provider): string {
  if (auth.case !== "oauth2") return "";
  const clientId = oauth?.clientId ?? "";
  if (clientId === "") return "Not registered";
  const isDocument = mcp?.clientDocuments === true && /^https:\/\//.test(clientId);
  return isDocument ? "Latchkey's metadata document" : "Registered at the authorization server";
}

/** The address of an MCP server for clients: the data listener has its default address here, as in other snippets. */
export function McpClientCard({ integration: { key } }: Pick<McpServerProps, "integration">) {
  const server = {
    type: "http",
    url: `http://localhost:3003/mcp/${key}`,
    headers: { Authorization: "Bearer YOUR_KEY", "Connection-Id": "CONNECTION" },
  };
  return (
    <aside class="card checklist" aria-label="At MCP clients">
      <h2>At MCP clients</h2>
      <Code label="client configuration" text={JSON.stringify({ mcpServers: { [key]: server } }, undefined, 2)} />
      <p class="quiet">
        Send a key or the token of an access session. It may leave out <code>Connection-Id</code> if it may use only one
        connection.
      </p>
    </aside>
  );
}
