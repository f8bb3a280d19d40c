import { useEffect } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { TabFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { authTitle, isConnectable, providerTitle } from "../../data/known-providers.ts";
import { useLoad } from "../../data/load.ts";
import { integrations, providers } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { useConnectTest } from "./connect-test.ts";
import { useConnectionCounts } from "./connection-counts.tsx";
import { DeleteIntegration } from "./delete-integration.tsx";
import { IntegrationSettings } from "./integration-settings.tsx";
import { SetupTab, type WholeIntegration } from "./setup-tab.tsx";
import { TestButton, TestPanel } from "./test-panel.tsx";
import { ToolsTab } from "./tools-tab.tsx";
import { stateOf } from "./warning-texts.ts";
import { Warnings } from "./warnings.tsx";

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

const tabsOf = (isMcp: boolean): readonly (readonly [value: string, text: string])[] => [
  ["", "Setup"],
  ...(isMcp ? [["tools", "Tools"] as const] : []),
  ["settings", "Settings"],
];

function Known({ environment, whole, reload }: KnownProps) {
  const { integration, setup, provider } = whole;
  const { key, displayName, declared } = integration;
  const test = useConnectTest(environment, key);
  const counts = useConnectionCounts(environment, [key]);
  useEffect(() => {
    if (test.state === "connected") counts.reload();
  }, [test.state]);
  const title = displayName || providerTitle(provider);
  const canTest = isConnectable(provider) && !integration.warnings.some(({ code }) => code === "client_missing");
  const state = stateOf(integration);
  const isMcp = integration.mcpUrl !== "";
  const tabs = tabsOf(isMcp);
  const [tab] = tabs.find(([value]) => value === queryValue("tab")) ?? [""];
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
      actions={canTest && <TestButton test={test} isPrimary={tab === ""} />}
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
      {tab === "tools" && <ToolsTab key={`${environment}/${key}`} integration={integration} />}
      {tab === "" && <SetupTab whole={whole} counts={counts} reload={reload} round={test.state} />}
      {tab === "settings" && (
        <>
          <IntegrationSettings
            key={`${environment}/${key}`}
            environment={environment}
            integration={integration}
            setup={setup}
            onSaved={reload}
          />
          {!declared && <DeleteIntegration integration={integration} counts={counts} />}
        </>
      )}
    </PageFrame>
  );
}
