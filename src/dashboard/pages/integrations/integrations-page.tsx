import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration, WatchIntegrationsResponse } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { ProviderMark } from "../../components/provider-mark.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { type KnownProviderList, providerTitle, useProviders } from "../../data/known-providers.ts";
import { usePager } from "../../data/pager.ts";
import { useWatch } from "../../data/watch.ts";
import { integrations } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { ConnectionCounts, type KnownCounts, useConnectionCounts } from "./connection-counts.tsx";
import { stateOf } from "./warning-texts.ts";

const states = [
  ["ready", "Ready"],
  ["warned", "With warnings"],
] as const;

/** The integrations of an environment: what is set up, what is not, and how its connections are. */
export function IntegrationsPage() {
  const environment = environmentName.value;
  const known = useProviders();
  const counts = useConnectionCounts(environment, []);
  const pager = usePager(
    async (pageToken, signal) => {
      const page = await integrations.listIntegrations({ environment, pageToken, pageSize: 200 }, { signal });
      return { items: page.integrations, nextPageToken: page.nextPageToken };
    },
    [environment],
  );
  useWatch(
    (signal) => integrations.watchIntegrations({ environment }, { signal }),
    ({ event }) => pager.edit((items) => edited(items, event)),
    { dependencies: [environment] },
  );
  const wanted = filterOf(queryValue("q"), queryValue("state"), known);
  const items = pager.items?.filter(wanted);
  const isEmpty = pager.items?.length === 0;
  return (
    <PageFrame
      title="Integrations"
      lead="Providers that your users can connect, each with your own app."
      actions={
        may(Scope.INTEGRATIONS_WRITE) && (
          <a class="button primary" href={linkTo("/catalog")}>
            Add integration
          </a>
        )
      }
    >
      {!isEmpty && (
        <FilterBar>
          <SearchFilter label="Key, name or provider" />
          <SelectFilter name="state" label="State" options={states} />
        </FilterBar>
      )}
      <PagedTable
        label="Integrations"
        pager={{ ...pager, items }}
        columns={columnsOf(known, counts)}
        keyOf={({ key }) => key}
        linkOf={({ key }) => linkTo(pathOf("integrations", key))}
        empty={
          isEmpty ? (
            <Empty title="No integrations yet">
              <p>An integration is a provider from the catalog with your own app. Choose a provider to begin.</p>
              <a class="button" href={linkTo("/catalog")}>
                Open the catalog
              </a>
            </Empty>
          ) : (
            <Empty title="No integration fits">Change the search or the state.</Empty>
          )
        }
      />
    </PageFrame>
  );
}

/** Returns the list after a change by anyone. */
function edited(items: readonly Integration[], event: WatchIntegrationsResponse["event"]): readonly Integration[] {
  if (event.case !== "put" && event.case !== "deleted") return items;
  const { key } = event.value;
  const others = items.filter((one) => one.key !== key);
  if (event.case === "deleted") return others;
  return [...others, event.value].sort((one, other) => (one.key < other.key ? -1 : 1));
}

function filterOf(text: string, state: string, { all }: KnownProviderList): (one: Integration) => boolean {
  const part = text.toLowerCase();
  return (one) => {
    const provider = all?.get(one.provider);
    const names = [one.key, one.displayName, one.provider, provider?.displayName ?? ""];
    const isNamed = names.some((name) => name.toLowerCase().includes(part));
    return isNamed && (state === "" || (state === "ready") === (one.warnings.length === 0));
  };
}

const columnsOf = (known: KnownProviderList, counts: KnownCounts): readonly TableColumn<Integration>[] => [
  { name: "Integration", show: (one) => <IntegrationName integration={one} known={known} /> },
  {
    name: "State",
    show(one) {
      const { text, tone, title } = stateOf(one);
      return (
        <Badge tone={tone} title={title}>
          {text}
        </Badge>
      );
    },
  },
  { name: "Connections", isMinor: true, show: ({ key }) => <ConnectionCounts integration={key} counts={counts} /> },
  {
    name: "Redirect URI",
    isMinor: true,
    show: ({ callbackUrl, provider }) =>
      hasCallback(known, provider) ? (
        <CopyButton text={callbackUrl} label="Copy the redirect URI" />
      ) : (
        <span class="quiet">–</span>
      ),
  },
  {
    name: "Webhook URL",
    isMinor: true,
    show: ({ webhookUrl, provider }) =>
      hasWebhooks(known, provider) ? (
        <CopyButton text={webhookUrl} label="Copy the webhook URL" />
      ) : (
        <span class="quiet">–</span>
      ),
  },
];

const hasCallback = ({ all }: KnownProviderList, name: string): boolean =>
  ["oauth2", "oauth1"].includes(all?.get(name)?.auth.case ?? "");
const hasWebhooks = ({ all }: KnownProviderList, name: string): boolean => all?.get(name)?.notification !== undefined;

function IntegrationName({
  integration,
  known,
}: {
  readonly integration: Integration;
  readonly known: KnownProviderList;
}) {
  const { key, displayName, provider: name, declared } = integration;
  const provider = known.all?.get(name);
  const title = displayName || (provider === undefined ? name : providerTitle(provider));
  return (
    <span class="marked">
      <ProviderMark name={name} title={title} categories={provider?.categories ?? []} />
      <span>
        {title}
        <span class="marked-sub">
          {key}
          {declared && " · from the configuration file"}
        </span>
      </span>
    </span>
  );
}
