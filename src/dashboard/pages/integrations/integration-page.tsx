import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration, IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { authTitle, isConnectable, providerTitle } from "../../data/known-providers.ts";
import { useLoad } from "../../data/load.ts";
import { integrations, providers } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { useConnectTest } from "./connect-test.ts";
import { ConnectionCounts, useConnectionCounts } from "./connection-counts.tsx";
import { DeleteIntegration } from "./delete-integration.tsx";
import { IntegrationSettings } from "./integration-settings.tsx";
import { SetupChecklist } from "./setup-checklist.tsx";
import { TestButton, TestPanel } from "./test-panel.tsx";
import { stateOf, warningText } from "./warning-texts.ts";

interface WholeIntegration {
  readonly integration: Integration;
  readonly setup: IntegrationSetup;
  readonly provider: Provider;
}

async function read(environment: string, key: string, signal: AbortSignal): Promise<WholeIntegration> {
  const [{ integration }, { setup }] = await Promise.all([
    integrations.getIntegration({ environment, key }, { signal }),
    integrations.getIntegrationSetup({ environment, key }, { signal }),
  ]);
  const { provider } = await providers.getProvider({ name: integration?.provider ?? "" }, { signal });
  if (integration === undefined || setup === undefined || provider === undefined)
    throw new Error("the answer holds no integration");
  return { integration, setup, provider };
}

/** An integration: what to do, its settings, and how it works. */
export function IntegrationPage({ values: { key = "" } }: PageProps) {
  const environment = environmentName.value;
  const loaded = useLoad((signal) => read(environment, key, signal), [environment, key]);
  const { value, fault, reload } = loaded;
  if (value !== undefined) return <Known environment={environment} whole={value} reload={reload} />;
  return (
    <PageFrame title={key} above={[["Integrations", linkTo("/integrations")]]}>
      {fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />}
    </PageFrame>
  );
}

interface KnownProps {
  readonly environment: string;
  readonly whole: WholeIntegration;
  readonly reload: () => void;
}

const tabs = [
  ["", "Setup"],
  ["settings", "Settings"],
] as const;

function Known({ environment, whole, reload }: KnownProps) {
  const { integration, setup, provider } = whole;
  const { key, displayName, declared } = integration;
  const test = useConnectTest(environment, key);
  const counts = useConnectionCounts(environment, [key]);
  const isDeleting = useSignal(false);
  const tab = queryValue("tab");
  const title = displayName || providerTitle(provider);
  const canTest = isConnectable(provider) && !integration.warnings.some(({ code }) => code === "client_missing");
  const state = stateOf(integration);
  return (
    <PageFrame
      title={
        <span class="marked">
          <ProviderMark name={provider.name} title={title} categories={provider.categories} isLarge />
          <span>
            {title}{" "}
            <Badge tone={state.tone} title={state.title}>
              {state.text}
            </Badge>
          </span>
        </span>
      }
      above={[["Integrations", linkTo("/integrations")]]}
      lead={
        <>
          <code>{key}</code> · <a href={linkTo(pathOf("providers", provider.name))}>{providerTitle(provider)}</a> ·{" "}
          {authTitle(provider)}
        </>
      }
      actions={
        <>
          <Button
            onClick={() => (isDeleting.value = true)}
            needs={Scope.INTEGRATIONS_WRITE}
            isDisabled={declared}
            {...(declared && { title: "It comes from the configuration file: remove it there" })}
          >
            Delete
          </Button>
          {canTest && <TestButton test={test} isPrimary={tab === ""} />}
        </>
      }
    >
      {declared && <Notice>This integration comes from the configuration file. Change it there.</Notice>}
      {!isConnectable(provider) && (
        <Notice>
          Users cannot enter credentials of this kind themselves. Import them, for example with{" "}
          <code>latchkey connections import</code>.
        </Notice>
      )}
      <TestPanel test={test} />
      <Warnings integration={integration} />
      <TabFilter name="tab" label="Parts of the integration" options={tabs} />
      {tab === "" ? (
        <div class="columns">
          <div>
            <div class="card">
              <Facts
                rows={[
                  ["Redirect URI", setup.callbackUrl && <CopyField text={setup.callbackUrl} label="redirect URI" />],
                  ["Webhook URL", setup.webhookUrl && <CopyField text={setup.webhookUrl} label="webhook URL" />],
                  ["Connections", <ConnectionCounts key="counts" integration={key} counts={counts} />],
                  ["Client ID", integration.oauth?.clientId && <code>{integration.oauth.clientId}</code>],
                  ["Scopes", <Scopes key="scopes" setup={setup} integration={integration} />],
                  ["Webhooks", setup.webhookUrl && webhookText(integration)],
                  ["Changed", <Time key="changed" at={integration.updatedAt} />],
                ]}
              />
            </div>
          </div>
          <SetupChecklist setup={setup} provider={provider} scopes={requested(integration, setup)} />
        </div>
      ) : (
        <IntegrationSettings
          key={`${environment}/${key}`}
          environment={environment}
          integration={integration}
          setup={setup}
          onSaved={reload}
        />
      )}
      {isDeleting.value && (
        <DeleteIntegration integration={integration} counts={counts} onClose={() => (isDeleting.value = false)} />
      )}
    </PageFrame>
  );
}

const webhookText = ({ noForward }: Integration): string =>
  noForward ? "Only syncs receive them" : "Delivered to your application";

function requested({ oauth }: Integration, { fields }: IntegrationSetup): readonly string[] {
  const own = oauth?.scopes ?? [];
  return own.length > 0 ? own : (fields.find(({ path }) => path === "oauth.scopes")?.defaultValues ?? []);
}

function Scopes({ setup, integration }: { readonly setup: IntegrationSetup; readonly integration: Integration }) {
  const scopes = requested(integration, setup);
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

/** What the provider's data, the scopes or missing settings predict, with the way to mend it. */
function Warnings({ integration: { key, warnings } }: { readonly integration: Integration }) {
  if (warnings.length === 0) return null;
  return (
    <Section title="What to mend">
      <ul class="warnings">
        {warnings.map((one) => {
          const { title, tone, field } = warningText(one);
          return (
            <li key={one.code} class={`notice ${tone}`}>
              <strong>{title}</strong>
              <p>{sentence(one.message)}</p>
              {field !== undefined && (
                <p class="notice-foot">
                  <a href={linkTo(pathOf("integrations", key), { tab: "settings", field })}>Open the settings</a>
                </p>
              )}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
