import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { Log } from "../../../gen/latchkey/v1/log_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CsvButton } from "../../components/csv-button.tsx";
import { FilterBar, SearchFilter, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { FreshRowsButton, useFreshRows } from "../../components/fresh-rows.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { type CsvColumn, saveCsv } from "../../data/csv-list.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { usePager } from "../../data/pager.ts";
import { ages, useSince } from "../../data/since.ts";
import { isBeginning, useWatch } from "../../data/watch.ts";
import { logs } from "../../state/clients.ts";
import { linkTo, pathOf, queryValue, setQuery } from "../../state/router.ts";
import { logFilter, searchedLogId } from "./log-filter.ts";
import { gistOf, kinds, levels, operationText, subjectText } from "./words.ts";

const columns: readonly TableColumn<Log>[] = [
  { name: "Operation", show: ({ operation }) => operationText(operation) },
  { name: "Outcome", show: (log) => <LogOutcome log={log} /> },
  { name: "Connection", show: (log) => subjectText(log) },
  { name: "What happened", show: (log) => <span class="quiet">{gistOf(log)}</span>, isMinor: true },
  { name: "When", show: ({ createdAt }) => <Time at={createdAt} /> },
];

export const LogOutcome = ({ log: { failed } }: { readonly log: Log }) => (
  <Badge tone={failed ? "bad" : "good"}>{failed ? "Failed" : "Done"}</Badge>
);

const csvColumns: readonly CsvColumn<Log>[] = [
  { name: "log_id", text: ({ id }) => id },
  { name: "time", text: ({ createdAt }) => (createdAt === undefined ? "" : timestampDate(createdAt).toISOString()) },
  { name: "operation", text: ({ operation }) => operation },
  { name: "outcome", text: ({ failed }) => (failed ? "failed" : "done") },
  { name: "integration", text: ({ integration }) => integration },
  { name: "connection", text: ({ connectionId }) => connectionId },
  { name: "what_happened", text: gistOf },
];

/** All operations, newest first, as they end: one search over what happened. */
export function LogsPage() {
  const filter = logFilter();
  const logId = searchedLogId();
  const since = useSince(queryValue("since"));
  const isLive = queryValue("live") !== "off";
  const dependencies = [...Object.values(filter), logId, since];
  const read = async (pageToken: string, pageSize: number, signal?: AbortSignal) => {
    const request = { ...filter, ...(since !== undefined && { since }), logId, pageToken, pageSize };
    const page = await logs.listLogs(request, signal === undefined ? {} : { signal });
    return { items: page.logs, nextPageToken: page.nextPageToken };
  };
  const pager = usePager((pageToken, signal) => read(pageToken, 50, signal), dependencies);
  const fresh = useFreshRows(pager);
  const watch = useWatch(
    (signal) => {
      fresh.clear();
      return logs.watchLogs(filter, { signal });
    },
    ({ event }) => {
      if (event.case === "log") fresh.add(event.value);
      // Logs were left out.
      if (event.case === "gap") pager.reload();
      if (isBeginning(event)) void fresh.catchUp(() => read("", 50));
    },
    { isOn: isLive && logId === "", dependencies },
  );
  return (
    <PageFrame
      title="Logs"
      lead="Authorizations, refreshes, script runs and other operations, with what happened in each."
      actions={
        <>
          <CsvButton
            save={() => saveCsv({ fileName: "logs.csv", columns: csvColumns, read: (token) => read(token, 1_000) })}
          />
          <LiveSwitch state={watch} isOn={isLive} onChange={(isOn) => setQuery({ live: isOn ? "" : "off" })} />
        </>
      }
    >
      <LogFilters connection={filter.connectionId} integration={filter.integration} />
      <FreshRowsButton rows={fresh} what="log" />
      <PagedTable
        label="Logs"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo(pathOf("logs", id))}
        empty={<NoLogs />}
      />
    </PageFrame>
  );
}

function LogFilters({ integration, connection }: { readonly integration: string; readonly connection: string }) {
  const names = useIntegrationNames();
  return (
    <>
      <TabFilter
        name="failed"
        label="Outcome"
        options={[
          ["", "All"],
          ["1", "Failed"],
        ]}
      />
      <FilterBar>
        <SearchFilter label="Text of a line, or a log ID" />
        <SelectFilter name="kind" label="Kind" options={kinds} />
        <SelectFilter name="level" label="Level" options={levels} />
        <SelectFilter name="since" label="Time" options={ages} />
        {names.length > 1 && (
          <SelectFilter name="integration" label="Integration" options={names.map((name) => [name, name])} />
        )}
        {connection !== "" && (
          <Button isSmall title="Remove this filter" onClick={() => setQuery({ integration: "", connection: "" })}>
            Only {integration}/{connection} ×
          </Button>
        )}
      </FilterBar>
    </>
  );
}

const filterNames = ["q", "kind", "level", "since", "failed", "integration", "connection"];

function NoLogs() {
  const isFiltered = filterNames.some((name) => queryValue(name) !== "");
  if (!isFiltered) {
    return (
      <Empty title="No logs yet">
        <p>A log is written when a user connects, credentials are refreshed, or a script runs.</p>
      </Empty>
    );
  }
  return (
    <Empty title="No log fits">
      <p>Search looks for text in the lines of each log.</p>
      <Button onClick={() => setQuery(Object.fromEntries(filterNames.map((name) => [name, ""])))}>
        Clear the filters
      </Button>
    </Empty>
  );
}
