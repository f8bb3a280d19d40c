import { useSignal } from "@preact/signals";
import { type Channel, Channel_State as ChannelState } from "../../../gen/latchkey/v1/channel_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { FilterBar, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { visibleText } from "../../data/bytes.ts";
import { msOf, now, relativeTime } from "../../data/format.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { ChannelDrawer } from "./channel-drawer.tsx";
import { type ChannelHistory, channelWords, historiesOf, isOver, spansOf, stateChoices } from "./channel-lives.ts";
import { useChannels } from "./followed-channels.ts";
import { LifeAxis, LifeBars, type LifeWindow, windowChoices, windowOf } from "./life-bars.tsx";

const filterNames = ["integration", "connection", "state"];

/** The subscriptions at providers, as bars over time. */
export function ChannelsPage() {
  const isLive = useSignal(true);
  const filter = {
    environment: environmentName.value,
    integration: queryValue("integration"),
    connectionId: queryValue("connection"),
    state: queryValue("state"),
  };
  const { pager, watchState } = useChannels(filter, isLive.value);
  const integrations = useIntegrationNames();
  const window = windowOf(queryValue("range"), now.value);
  const opened = queryValue("channel");
  const { items, fault } = pager;
  return (
    <PageFrame title="Channels" lead="Subscriptions at providers: their lives, renewals, gaps and silence.">
      <FilterBar>
        <SelectFilter name="integration" label="Integration" options={integrations.map((key) => [key, key])} />
        <SelectFilter name="state" label="State" options={stateChoices.map(([value, name]) => [value, name])} />
        <TabFilter
          name="range"
          label="Time shown"
          options={windowChoices.map(([value, name]) => [value === "7d" ? "" : value, name])}
        />
        {filter.connectionId !== "" && (
          <button type="button" class="value-filter" onClick={() => setQuery({ connection: "" })}>
            Connection: <span>{filter.connectionId}</span> ×
          </button>
        )}
        <LiveSwitch state={watchState} isOn={isLive.value} onChange={(isOn) => (isLive.value = isOn)} />
      </FilterBar>
      {fault !== undefined && <FaultNotice fault={fault} retry={pager.reload} />}
      {items === undefined && fault === undefined && <Skeleton />}
      {items?.length === 0 && !pager.hasMore && <NoChannels />}
      {items !== undefined && items.length > 0 && <ChannelRows channels={items} window={window} />}
      {pager.hasMore && (
        <p class="table-foot">
          <Button onClick={pager.more} isBusy={pager.isLoading}>
            Show more
          </Button>
        </p>
      )}
      {opened !== "" && (
        <ChannelDrawer
          environment={filter.environment}
          id={opened}
          others={items ?? []}
          onClose={() => setQuery({ channel: "" })}
          onChange={pager.reload}
        />
      )}
    </PageFrame>
  );
}

const ChannelRows = ({ channels, window }: { readonly channels: readonly Channel[]; readonly window: LifeWindow }) => (
  <div class="channel-box">
    <Legend />
    <ul class="channel-rows" aria-label="Channels">
      {historiesOf(channels).map((history) => (
        <ChannelRow key={history.key} history={history} window={window} />
      ))}
      <li class="channel-row axis" aria-hidden="true">
        <span />
        <span />
        <LifeAxis window={window} />
        <span />
      </li>
    </ul>
  </div>
);

function ChannelRow({ history, window }: { readonly history: ChannelHistory; readonly window: LifeWindow }) {
  const { latest, lives } = history;
  const [tone, text] = channelWords(latest);
  const { connection, resourceKind, resource } = latest;
  const end = endText(latest);
  return (
    <li class="channel-row linked">
      <span class="channel-name">
        <a class="row-link" data-row-link href={linkTo("/channels", { ...shownQuery(), channel: latest.id })}>
          {connection?.integration}/{connection?.id}
        </a>
        <span class="quiet">{visibleText(`${resourceKind} ${resource}`.trim())}</span>
      </span>
      <Badge tone={tone} {...(latest.stateReason !== "" && { title: latest.stateReason })}>
        {text}
      </Badge>
      <LifeBars
        spans={spansOf(history, window.nowMs)}
        window={window}
        renewMs={latest.state === ChannelState.ACTIVE ? msOf(latest.renewAt) : undefined}
        label={`${lives.length} ${lives.length === 1 ? "channel" : "channels"} in time. ${text}, ${end}.`}
      />
      <span class="channel-end quiet">{end}</span>
    </li>
  );
}

const shownQuery = () => Object.fromEntries([...filterNames, "range"].map((name) => [name, queryValue(name)] as const));

/** When the channel ends, and whether Latchkey renews it before. */
function endText(channel: Channel): string {
  if (isOver(channel)) return `ended ${relativeTime(msOf(channel.updatedAt) ?? 0)}`;
  if (!channel.managed) return "made by a script";
  const renewMs = msOf(channel.renewAt);
  if (channel.state === ChannelState.ACTIVE && renewMs !== undefined) return `renews ${relativeTime(renewMs)}`;
  const endMs = msOf(channel.expiresAt);
  return endMs === undefined ? "without a known end" : `expires ${relativeTime(endMs)}`;
}

const Legend = () => (
  <ul class="life-legend" aria-label="Legend">
    <li class="life-note">Ended channels are kept for 7 days</li>
    {(
      [
        ["life", "active"],
        ["planned", "to come"],
        ["ended", "ended"],
        ["gap", "gap"],
        ["silent", "silent"],
      ] as const
    ).map(([kind, name]) => (
      <li key={kind}>
        <svg width="14" height="10" aria-hidden="true">
          <rect class={`life ${kind}`} width="14" height="10" rx="2" />
        </svg>
        {name}
      </li>
    ))}
    <li>
      <svg width="10" height="10" aria-hidden="true">
        <circle class="life failed" cx="5" cy="5" r="4" />
      </svg>
      failed request
    </li>
  </ul>
);

function NoChannels() {
  if (filterNames.every((name) => queryValue(name) === ""))
    return (
      <Empty title="No channels">
        <p>
          Providers such as Google Calendar and Drive notify through channels that expire. Turn on automatic channels in
          the settings of an integration, or create one with <code>latchkey channels create</code>.
        </p>
        <a class="button" href={linkTo("/integrations")}>
          Open integrations
        </a>
      </Empty>
    );
  return (
    <Empty title="No channel fits the filters">
      <Button onClick={() => setQuery(Object.fromEntries(filterNames.map((name) => [name, ""])))}>
        Clear the filters
      </Button>
    </Empty>
  );
}
