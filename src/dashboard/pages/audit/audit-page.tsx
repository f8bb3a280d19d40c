import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { AuditEvent } from "../../../gen/latchkey/v1/log_pb.ts";
import { Button, scopeName } from "../../components/button.tsx";
import { CsvButton } from "../../components/csv-button.tsx";
import { FilterBar, SearchFilter, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { FreshRowsButton, useFreshRows } from "../../components/fresh-rows.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { type CsvColumn, saveCsv } from "../../data/csv-list.ts";
import { usePager } from "../../data/pager.ts";
import { isBeginning, useWatch } from "../../data/watch.ts";
import { logs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf, queryValue, setQuery } from "../../state/router.ts";
import { may } from "../../state/session.ts";

const actions = [
  ["connection", "Connections"],
  ["approval", "Approvals"],
  ["integration", "Integrations"],
  ["environment", "Environments"],
  ["key", "Keys"],
  ["signing_secret", "Signing secrets"],
  ["connect_session", "Connect links"],
  ["provider", "Providers"],
  ["sync", "Syncs"],
  ["run", "Runs"],
  ["channel", "Channels"],
  ["forward", "Deliveries"],
  ["destination", "Destinations"],
] as const;

const columns: readonly TableColumn<AuditEvent>[] = [
  { name: "Action", show: ({ action }) => <code>{action}</code> },
  { name: "By", show: (event) => <Actor event={event} /> },
  { name: "On", show: (event) => <Targets event={event} /> },
  { name: "Changed fields", show: ({ fields }) => <span class="quiet">{fields.join(", ")}</span>, isMinor: true },
  { name: "When", show: ({ at }) => <Time at={at} /> },
];

const csvColumns: readonly CsvColumn<AuditEvent>[] = [
  { name: "id", text: ({ id }) => id },
  { name: "time", text: ({ at }) => (at === undefined ? "" : timestampDate(at).toISOString()) },
  { name: "actor", text: ({ actor }) => actor },
  { name: "action", text: ({ action }) => action },
  { name: "environment", text: ({ environment }) => environment },
  { name: "targets", text: ({ targets }) => targets.join(" ") },
  { name: "fields", text: ({ fields }) => fields.join(" ") },
];

/** What keys, scripts and the configuration changed, newest first, as it happens. */
export function AuditPage() {
  if (may(Scope.ADMIN)) return <AuditList />;
  return (
    <PageFrame title="Audit">
      <Empty title="Your key may not read the audit trail">
        <p>It lacks the scope {scopeName(Scope.ADMIN)}. Sign in with a control key.</p>
      </Empty>
    </PageFrame>
  );
}

function AuditList() {
  const isEverywhere = queryValue("everywhere") !== "";
  const filter = {
    environment: isEverywhere ? "" : environmentName.value,
    text: queryValue("q").trim(),
    action: queryValue("kind"),
    actor: queryValue("actor"),
    target: queryValue("target"),
  };
  const isLive = queryValue("live") !== "off";
  const dependencies = Object.values(filter);
  const read = async (pageToken: string, pageSize: number, signal?: AbortSignal) => {
    const page = await logs.listAuditEvents({ ...filter, pageToken, pageSize }, signal === undefined ? {} : { signal });
    return { items: page.events, nextPageToken: page.nextPageToken };
  };
  const pager = usePager((pageToken, signal) => read(pageToken, 50, signal), dependencies);
  const fresh = useFreshRows(pager);
  const watch = useWatch(
    (signal) => {
      fresh.clear();
      return logs.watchAuditEvents(filter, { signal });
    },
    ({ event }) => {
      if (event.case === "auditEvent") fresh.add(event.value);
      // Events were left out.
      if (event.case === "gap") pager.reload();
      if (isBeginning(event)) void fresh.catchUp(() => read("", 50));
    },
    { isOn: isLive, dependencies },
  );
  return (
    <PageFrame
      title="Audit"
      lead="Who changed what. Values are not kept, only the names of the fields."
      actions={
        <>
          <CsvButton
            save={() => saveCsv({ fileName: "audit.csv", columns: csvColumns, read: (token) => read(token, 1_000) })}
          />
          <LiveSwitch state={watch} isOn={isLive} onChange={(isOn) => setQuery({ live: isOn ? "" : "off" })} />
        </>
      }
    >
      <AuditFilters actor={filter.actor} target={filter.target} />
      <FreshRowsButton rows={fresh} what="event" />
      <PagedTable
        label="Audit events"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No audit events">
            <p>Nothing was changed yet, or nothing fits the filters.</p>
          </Empty>
        }
      />
    </PageFrame>
  );
}

const AuditFilters = ({ actor, target }: { readonly actor: string; readonly target: string }) => (
  <>
    <TabFilter
      name="everywhere"
      label="Environments"
      options={[
        ["", "This environment"],
        ["1", "All environments"],
      ]}
    />
    <FilterBar>
      <SearchFilter label="Action, key, target or field" />
      <SelectFilter name="kind" label="Action on" options={actions} />
      {actor !== "" && (
        <Button isSmall title="Remove this filter" onClick={() => setQuery({ actor: "" })}>
          By {actor} ×
        </Button>
      )}
      {target !== "" && (
        <Button isSmall title="Remove this filter" onClick={() => setQuery({ target: "" })}>
          On {target} ×
        </Button>
      )}
    </FilterBar>
  </>
);

const Actor = ({ event: { actor } }: { readonly event: AuditEvent }) => (
  <button type="button" class="button link" title="Only events of this key" onClick={() => setQuery({ actor })}>
    {actor}
  </button>
);

const shownTargets = 3;

function Targets({ event: { targets, action } }: { readonly event: AuditEvent }) {
  const more = targets.length - shownTargets;
  return (
    <>
      {targets.slice(0, shownTargets).map((target, i) => (
        <span key={target}>
          {i > 0 && ", "}
          <Target target={target} action={action} />
        </span>
      ))}
      {more > 0 && <span class="quiet"> and {more} more</span>}
    </>
  );
}

/** A connection leads to its page; it may have been deleted since. */
function Target({ target, action }: { readonly target: string; readonly action: string }) {
  const [integration = "", id = "", ...more] = target.split("/");
  if (!action.startsWith("connection.") || id === "" || more.length > 0) return <>{target}</>;
  return <a href={linkTo(pathOf("connections", integration, id))}>{target}</a>;
}
