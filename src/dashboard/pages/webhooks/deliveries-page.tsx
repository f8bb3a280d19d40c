import { Code, ConnectError } from "@connectrpc/connect";
import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Forward } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Button } from "../../components/button.tsx";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { reasonText } from "../../data/delivery-errors.ts";
import { counted, words } from "../../data/format.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { usePager } from "../../data/pager.ts";
import { ages } from "../../data/since.ts";
import { useWatch } from "../../data/watch.ts";
import { webhooks } from "../../state/clients.ts";
import { linkTo, pathOf, queryValue, setQuery } from "../../state/router.ts";
import { DeliveryBadge, NextTry } from "./attempts.tsx";
import { BulkDialog, type BulkKind } from "./bulk-dialog.tsx";
import { filterMessage, fitsDelivery, useDeliveryFilter } from "./delivery-filter.ts";
import { destinationText, stateFilters } from "./delivery-words.ts";
import { ValueFilter } from "./value-filter.tsx";
import { WebhookTabs } from "./webhook-tabs.tsx";

const columns: readonly TableColumn<Forward>[] = [
  { name: "Delivery", show: (one) => subjectOf(one) },
  { name: "State", show: (one) => <DeliveryBadge delivery={one} /> },
  {
    name: "Why",
    show: ({ stateReason }) => <span class="reason">{stateReason === "" ? "" : reasonText(stateReason)}</span>,
    isMinor: true,
  },
  { name: "Attempts", show: ({ attemptCount }) => attemptCount, isNumber: true, isMinor: true },
  { name: "Next try", show: ({ nextAttemptAt }) => <NextTry at={nextAttemptAt} />, isMinor: true },
  { name: "Destination", show: ({ destination }) => destinationText(destination), isMinor: true },
  { name: "Created", show: ({ createdAt }) => <Time at={createdAt} /> },
];

/** What goes out to the application, newest first. */
export function DeliveriesPage() {
  const filter = useDeliveryFilter();
  const { environment, ...conditions } = filter;
  const wanted = queryValue("q").trim();
  const integrations = useIntegrationNames();
  const isLive = useSignal(true);
  const fresh = useSignal<ReadonlySet<string>>(new Set());
  const bulk = useSignal<BulkKind | undefined>(undefined);
  const pager = usePager<Forward>(
    async (pageToken, signal) => {
      if (pageToken === "") fresh.value = new Set();
      if (wanted !== "") return { items: await found(environment, wanted, signal), nextPageToken: "" };
      const request = { environment, filter: filterMessage(conditions), pageToken, pageSize: 50 };
      const page = await webhooks.listForwards(request, { signal });
      return { items: page.forwards, nextPageToken: page.nextPageToken };
    },
    [
      environment,
      conditions.integration,
      conditions.connectionId,
      queryValue("state"),
      wanted,
      conditions.destination,
      conditions.since,
    ],
  );
  const watchState = useWatch(
    (signal) => webhooks.watchNotifications({ environment, integration: filter.integration }, { signal }),
    ({ event }) => {
      if (event.case !== "forward") return;
      const changed = event.value;
      const isShown = pager.items?.some(({ id }) => id === changed.id) === true;
      if (isShown) pager.edit((items) => items.map((one) => (one.id === changed.id ? changed : one)));
      else if (wanted === "" && fitsDelivery(changed, filter))
        fresh.value = new Set([...fresh.peek(), changed.id].slice(-200));
    },
    { isOn: isLive.value, dependencies: [environment, filter.integration], onReopen: pager.reload },
  );
  // The work on many goes by the filters, and not by an ID.
  const forBulk = {
    needs: Scope.CONNECTIONS_WRITE,
    isDisabled: wanted !== "",
    ...(wanted !== "" && { title: "Open the delivery, or empty the search" }),
  };
  return (
    <PageFrame
      title="Webhooks"
      lead="What went to your application: copies of webhooks, and events of Latchkey."
      actions={
        <>
          <Button {...forBulk} onClick={() => (bulk.value = "cancel")}>
            Cancel waiting…
          </Button>
          <Button {...forBulk} kind="primary" onClick={() => (bulk.value = "replay")}>
            Replay…
          </Button>
        </>
      }
    >
      <WebhookTabs current="deliveries" />
      <FilterBar>
        <SearchFilter label="webhook-id" />
        <SelectFilter name="state" label="State" options={stateFilters.map(([value, name]) => [value, name])} />
        <SelectFilter name="integration" label="Integration" options={integrations.map((key) => [key, key])} />
        <SelectFilter name="since" label="Created" options={ages} />
        <ValueFilter name="connection" label="Connection" />
        <ValueFilter name="destination" label="Destination" />
        <LiveSwitch state={watchState} isOn={isLive.value} onChange={(isOn) => (isLive.value = isOn)} />
      </FilterBar>
      {fresh.value.size > 0 && (
        <p class="fresh-rows">
          <Button isSmall onClick={pager.reload}>
            Show {counted(fresh.value.size, "new delivery", "new deliveries")}
          </Button>
        </p>
      )}
      <PagedTable
        label="Deliveries"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo(`/webhooks/deliveries${pathOf(id)}`)}
        empty={<NoDeliveries />}
      />
      {bulk.value !== undefined && (
        <BulkDialog kind={bulk.value} filter={filter} onClose={() => (bulk.value = undefined)} onDone={pager.reload} />
      )}
    </PageFrame>
  );
}

/** Finds the delivery that an application knows by its `webhook-id`. */
async function found(environment: string, id: string, signal: AbortSignal): Promise<readonly Forward[]> {
  try {
    const { forward } = await webhooks.getForward({ environment, id }, { signal });
    return forward === undefined ? [] : [forward];
  } catch (error) {
    if (ConnectError.from(error).code === Code.NotFound) return [];
    throw error;
  }
}

/** An event of Latchkey says which kind it is. */
function subjectOf({ type, integration, connectionId }: Forward): string {
  const name = connectionId === "" ? integration : `${integration}/${connectionId}`;
  return type === "forward" ? name : `${name}: ${words(type).toLowerCase()} event`;
}

function NoDeliveries() {
  const names = ["q", "state", "integration", "connection", "destination", "since"];
  if (names.every((name) => queryValue(name) === ""))
    return <Empty title="No deliveries yet">Webhooks and events are delivered to the environment's forward URL.</Empty>;
  return (
    <Empty title="No delivery fits the filters">
      <Button onClick={() => setQuery(Object.fromEntries(names.map((name) => [name, ""])))}>Clear the filters</Button>
    </Empty>
  );
}
