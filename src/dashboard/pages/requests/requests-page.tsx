import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { RecentRequest } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Button } from "../../components/button.tsx";
import { FilterBar, SearchFilter, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { counted, countText, durationText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { integrations, traffic } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { address, linkTo, navigate, queryValue, setQuery } from "../../state/router.ts";
import { useRecentList } from "./recent-list.ts";
import { RequestDetails } from "./request-details.tsx";
import { ConnectionLink, RequestLine, RequestStatus, RequestTime } from "./request-names.tsx";

const columns: readonly TableColumn<RecentRequest>[] = [
  { name: "Request", show: (request) => <RequestLine request={request} /> },
  { name: "Status", show: (request) => <RequestStatus request={request} /> },
  { name: "Connection", show: ({ connection }) => <ConnectionLink connection={connection} />, isMinor: true },
  { name: "Took", show: ({ totalMs }) => durationText(totalMs), isNumber: true },
  { name: "Latchkey", show: ({ addedMs }) => durationText(addedMs), isNumber: true, isMinor: true },
  { name: "Key", show: ({ keyId }) => keyId, isMinor: true },
  { name: "Time", show: (request) => <RequestTime request={request} />, isNumber: true, isMinor: true },
];

const names = ["q", "status", "by", "integration", "connection", "method", "slower", "key"] as const;
const statuses = [
  ["", "All"],
  ["2", "2xx"],
  ["3", "3xx"],
  ["4", "4xx"],
  ["5", "5xx"],
] as const;
const methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"].map((name) => [name, name] as const);
const durations = [
  ["100", "100 ms"],
  ["500", "500 ms"],
  ["1000", "1 s"],
  ["5000", "5 s"],
] as const;

/** The requests that went through the proxy, as they end. */
export function RequestsPage() {
  const environment = environmentName.value;
  const isOn = useSignal(true);
  const chosen = queryValue("request");
  const integration = queryValue("integration");
  const filter = {
    integration,
    connectionId: integration === "" ? "" : queryValue("connection"),
    method: queryValue("method"),
    path: queryValue("q"),
    status: queryValue("status"),
    byLatchkey: queryValue("by") === "latchkey",
    minMs: Number(queryValue("slower")) || 0,
    keyId: queryValue("key"),
  };
  const list = useRecentList({ environment, filter }, { isOn: isOn.value, isReading: chosen !== "" });
  const about = useLoad((signal) => traffic.listRequests({ environment, pageSize: 1 }, { signal }), [environment]);
  const request = list.rows?.find(({ number }) => String(number) === chosen);
  return (
    <PageFrame
      title="Requests"
      lead={<Lead kept={about.value?.kept} replica={about.value?.replica} />}
      actions={
        <>
          <LiveSwitch state={list.state} isOn={isOn.value} onChange={(on) => (isOn.value = on)} />
          <Button kind="primary" needs={Scope.PROXY} onClick={() => navigate(tryLink(filter))}>
            Try a request
          </Button>
        </>
      }
    >
      <TabFilter name="status" label="Status" options={statuses} />
      <Filters environment={environment} />
      {list.waiting > 0 && (
        <p class="new-rows">
          <Button isSmall onClick={list.take}>
            Show {counted(list.waiting, "new request")}
          </Button>
        </p>
      )}
      {list.skipped > 0 && (
        <p class="quiet">{counted(list.skipped, "request")} came too fast to be shown. Filters show fewer.</p>
      )}
      {about.fault !== undefined && list.rows === undefined && <FaultNotice fault={about.fault} retry={about.reload} />}
      {about.value?.kept === 0 ? <Off /> : <Rows rows={list.rows} isSlow={list.state === "connecting"} />}
      {request !== undefined && (
        <RequestDetails request={request} onClose={() => setQuery({ request: undefined }, { push: true })} />
      )}
    </PageFrame>
  );
}

const tryLink = ({ integration, connectionId }: { readonly integration: string; readonly connectionId: string }) =>
  linkTo("/requests/try", { integration, connection: connectionId });

const Lead = ({ kept, replica }: { readonly kept: number | undefined; readonly replica: string | undefined }) =>
  kept === undefined || kept === 0 ? (
    <>What went through the proxy.</>
  ) : (
    <>
      The last {countText(kept)} requests of the replica {replica}, without headers and bodies.
    </>
  );

const Off = () => (
  <Empty title="Requests are not kept">
    <p>
      This Latchkey was started with <code>LATCHKEY_RECENT_REQUESTS=off</code>. Start it without this setting to see
      requests here.
    </p>
  </Empty>
);

function Filters({ environment }: { readonly environment: string }) {
  const known = useLoad(
    async (signal) => (await integrations.listIntegrations({ environment, pageSize: 200 }, { signal })).integrations,
    [environment],
  );
  const connection = queryValue("connection");
  const key = queryValue("key");
  const isFiltered = names.some((name) => queryValue(name) !== "");
  return (
    <FilterBar>
      <SearchFilter label="Path contains" />
      <SelectFilter
        name="integration"
        label="Integration"
        options={(known.value ?? []).map((one) => [one.key, one.key] as const)}
      />
      {connection !== "" && <Chosen name="connection" label={`Connection: ${connection}`} />}
      {key !== "" && <Chosen name="key" label={`Key: ${key}`} />}
      <SelectFilter name="method" label="Method" options={methods} />
      <SelectFilter name="by" label="By" options={[["latchkey", "Latchkey"]]} />
      <SelectFilter name="slower" label="Slower than" options={durations} />
      {isFiltered && (
        <Button kind="link" onClick={() => setQuery(Object.fromEntries(names.map((name) => [name, undefined])))}>
          Clear filters
        </Button>
      )}
    </FilterBar>
  );
}

/** A filter that came with a link. */
const Chosen = ({ name, label }: { readonly name: string; readonly label: string }) => (
  <Button onClick={() => setQuery({ [name]: undefined })} label={`Remove the filter ${label}`}>
    {label} ×
  </Button>
);

function Rows({ rows, isSlow }: { readonly rows: readonly RecentRequest[] | undefined; readonly isSlow: boolean }) {
  if (rows === undefined) return isSlow ? <Skeleton /> : null;
  if (rows.length === 0) return <NoRows />;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Enter on a row's link is a click too.
    // biome-ignore lint/a11y/noStaticElementInteractions: the links in it are interactive.
    <div onClick={openDetails}>
      <Table
        label="Requests"
        columns={columns}
        rows={rows}
        keyOf={({ number }) => String(number)}
        linkOf={({ number }) => detailsLink(String(number))}
      />
    </div>
  );
}

function NoRows() {
  const isFiltered = names.some((name) => queryValue(name) !== "");
  return isFiltered ? (
    <Empty title="No request fits the filters">
      <p>New ones appear here as they end.</p>
    </Empty>
  ) : (
    <Empty title="No requests yet">
      <p>Send one through the proxy, or use “Try a request”. It appears here once it is over.</p>
      <Notice>Each replica has its own requests, since it was started.</Notice>
    </Empty>
  );
}

function detailsLink(number: string): string {
  const query = new URLSearchParams(address.value.query);
  query.set("request", number);
  return `?${query}`;
}

/** Opens the details in place: following the link would scroll to the top. */
function openDetails(event: MouseEvent) {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[data-row-link]") : null;
  if (!(link instanceof HTMLAnchorElement)) return;
  event.preventDefault();
  setQuery({ request: new URL(link.href).searchParams.get("request") ?? undefined }, { push: true });
}
