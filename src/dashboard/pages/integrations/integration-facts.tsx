import type { Integration, IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import { CopyField } from "../../components/copy.tsx";
import { Facts } from "../../components/page.tsx";
import { Time } from "../../components/time.tsx";
import { ConnectionCounts, type KnownCounts } from "./connection-counts.tsx";

interface IntegrationFactsProps {
  readonly integration: Integration;
  readonly setup: IntegrationSetup;
  readonly counts: KnownCounts;
}

const hasScopes = ({ fields }: IntegrationSetup): boolean => fields.some(({ path }) => path === "oauth.scopes");

/** What an integration is, at a glance. */
export const IntegrationFacts = ({ integration, setup, counts }: IntegrationFactsProps) => (
  <div class="card">
    <Facts
      rows={[
        ["Redirect URI", setup.callbackUrl && <CopyField text={setup.callbackUrl} label="redirect URI" />],
        ["Webhook URL", setup.webhookUrl && <CopyField text={setup.webhookUrl} label="webhook URL" />],
        ["Connections", <ConnectionCounts key="counts" integration={integration.key} counts={counts} />],
        ["Client ID", integration.oauth?.clientId && <code>{integration.oauth.clientId}</code>],
        ["Scopes", hasScopes(setup) && <Scopes key="scopes" setup={setup} integration={integration} />],
        ["Webhooks", setup.webhookUrl && webhookText(integration)],
        ["Changed", <Time key="changed" at={integration.updatedAt} />],
      ]}
    />
  </div>
);

const webhookText = ({ noForward }: Integration): string =>
  noForward ? "Only syncs receive them" : "Delivered to your application";

/** The scopes that end users are asked for. */
export function requestedScopes({ oauth }: Integration, { fields }: IntegrationSetup): readonly string[] {
  const own = oauth?.scopes ?? [];
  return own.length > 0 ? own : (fields.find(({ path }) => path === "oauth.scopes")?.defaultValues ?? []);
}

function Scopes({ setup, integration }: { readonly setup: IntegrationSetup; readonly integration: Integration }) {
  const scopes = requestedScopes(integration, setup);
  if (scopes.length === 0) return <span class="quiet">–</span>;
  return (
    <ul class="chips">
      {scopes.map((scope) => (
        <li key={scope} class="chip">
          {scope}
        </li>
      ))}
    </ul>
  );
}
