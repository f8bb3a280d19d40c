import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../components/button.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { RowTable } from "../../components/row-table.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { counted, countText } from "../../data/format.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, navigate, pathOf, queryValue } from "../../state/router.ts";
import { BulkBar } from "./bulk/bulk-bar.tsx";
import { ExportButton } from "./bulk/export-button.tsx";
import { connectionColumns } from "./connection-columns.tsx";
import { type ConnectionCounts, useConnectionCounts } from "./connection-counts.ts";
import { ConnectionFilters, clearFilters, isFiltered } from "./connection-filters.tsx";
import { type ConnectionRows, type ListedConnection, useConnectionRows } from "./connection-list.ts";
import { nameOf, useLiveConnections } from "./live-connections.ts";

export const linkOfConnection = ({ ref }: Connection) =>
  linkTo(pathOf("connections", ref?.integration ?? "", ref?.id ?? ""));

/** The connections of an environment. */
export function ConnectionsPage() {
  const environment = environmentName.value;
  const counts = useConnectionCounts(environment);
  const integrations = useIntegrationNames();
  const rows = useConnectionRows();
  const isLive = useSignal(true);
  const live = useLiveConnections(environment, rows, counts, isLive.value);
  const chosen = useSignal<ReadonlyMap<string, Connection>>(new Map());
  useNewestOnceCounted(rows, counts, chosen.value.size > 0);
  function reload() {
    live.forgetNew();
    rows.reload();
    counts.refresh();
    window.scrollTo(0, 0);
  }
  return (
    <PageFrame
      title="Connections"
      lead="The accounts that your end users have connected."
      actions={
        <>
          <LiveSwitch state={live.state} isOn={isLive.value} onChange={(isOn) => (isLive.value = isOn)} />
          <ExportButton />
          <Button kind="primary" needs={Scope.CONNECTIONS_WRITE} onClick={() => navigate(linkTo("/connect"))}>
            Connect an account
          </Button>
        </>
      }
    >
      <ConnectionFilters counts={counts.counts} integrations={integrations} />
      {rows.fault !== undefined && <FaultNotice fault={rows.fault} retry={rows.reload} />}
      {counts.readSoFar !== undefined && (
        <Notice>
          Counting: {countText(counts.readSoFar)} connections so far. Until all are counted, the list is sorted by
          integration and ID.
        </Notice>
      )}
      <BulkBar chosen={chosen.value} onChange={(next) => (chosen.value = next)} onDone={reload} total={rows.total} />
      <ConnectionTable
        rows={rows}
        chosen={chosen.value}
        onChoose={(next) => (chosen.value = next)}
        newCount={live.newCount}
        onShowNew={reload}
      />
    </PageFrame>
  );
}

/** Below this, a person reads rows, and the list is not sorted again. */
const topPx = 200;

/** A list that was read before all connections were counted is sorted by name. It is read again, once. */
function useNewestOnceCounted(rows: ConnectionRows, counts: ConnectionCounts, isInUse: boolean): void {
  const isRead = useRef(false);
  const isCounted = counts.isKnown && counts.readSoFar === undefined;
  const canBeNewest = queryValue("tag") === "" && queryValue("match") === "";
  const isOld = rows.count !== undefined && !rows.isLoading && !rows.isNewestFirst;
  useEffect(() => {
    if (!isCounted || !isOld || !canBeNewest || isInUse || isRead.current || window.scrollY > topPx) return;
    isRead.current = true;
    rows.reload();
  }, [isCounted, isOld, canBeNewest]);
}

interface ConnectionTableProps {
  readonly rows: ConnectionRows;
  readonly chosen: ReadonlyMap<string, Connection>;
  readonly onChoose: (chosen: ReadonlyMap<string, Connection>) => void;
  readonly newCount: number;
  readonly onShowNew: () => void;
}

function ConnectionTable({ rows, chosen, onChoose, newCount, onShowNew }: ConnectionTableProps) {
  const { count } = rows;
  if (count === undefined) return rows.fault === undefined ? <Skeleton /> : null;
  if (count === 0 && rows.isEnd) return <NoConnections />;
  return (
    <>
      <div class="list-head">
        <span aria-live="polite">{extentText(rows)}</span>
        {newCount > 0 && (
          <Button isSmall onClick={onShowNew}>
            Show {counted(newCount, "new connection")}
          </Button>
        )}
      </div>
      <RowTable
        label="Connections"
        columns={connectionColumns}
        rows={rows}
        total={rows.total}
        keyOf={({ connection }) => nameOf(connection.ref)}
        linkOf={({ connection }) => linkOfConnection(connection)}
        classOf={({ isDeleted }) => (isDeleted ? "gone" : undefined)}
        mark={(row) => <Mark row={row} rows={rows} chosen={chosen} onChoose={onChoose} />}
      />
      {!rows.isEnd && rows.lookedAt > 0 && !rows.isLoading && (
        <p class="table-foot">
          <span class="quiet">Searched about {countText(rows.lookedAt)} connections. </span>
          <Button isSmall onClick={() => rows.show(count, count + 1)}>
            Search on
          </Button>
        </p>
      )}
    </>
  );
}

function extentText({ count = 0, isEnd, total, isNewestFirst, isLoading, lookedAt }: ConnectionRows): string {
  const order = isNewestFirst ? "newest first" : "by integration and ID";
  if (isLoading && lookedAt > 0) return `Searching: about ${countText(lookedAt)} connections so far`;
  if (total !== undefined) return `${counted(total, "connection")}, ${order}`;
  return `${counted(count, "connection")}${isEnd ? "" : " or more"}, ${order}`;
}

interface MarkProps extends Pick<ConnectionTableProps, "rows" | "chosen" | "onChoose"> {
  /** Undefined in the head. */
  readonly row: ListedConnection | undefined;
}

/** Chooses a row, or all rows in memory. */
function Mark({ row, rows, chosen, onChoose }: MarkProps) {
  function toggle(isOn: boolean) {
    const next = new Map(isOn || row !== undefined ? chosen : []);
    const all = row === undefined ? loadedRows(rows) : [row];
    for (const { connection, isDeleted } of all) {
      if (isOn && !isDeleted) next.set(nameOf(connection.ref), connection);
      else next.delete(nameOf(connection.ref));
    }
    onChoose(next);
  }
  const isChecked = row === undefined ? chosen.size > 0 : chosen.has(nameOf(row.connection.ref));
  return (
    <input
      type="checkbox"
      aria-label={row === undefined ? "Choose the loaded connections" : `Choose ${row.connection.ref?.id}`}
      checked={isChecked}
      disabled={row?.isDeleted === true}
      onChange={(event) => toggle(event.currentTarget.checked)}
    />
  );
}

function loadedRows(rows: ConnectionRows): readonly ListedConnection[] {
  const found: ListedConnection[] = [];
  for (let i = 0; i < (rows.count ?? 0); i += 1) {
    const row = rows.at(i);
    if (row !== undefined) found.push(row);
  }
  return found;
}

const NoConnections = () =>
  isFiltered() ? (
    <Empty title="No connection matches">
      <p>Nothing in this environment fits the filters.</p>
      <Button onClick={clearFilters}>Clear the filters</Button>
    </Empty>
  ) : (
    <Empty title="No connections yet">
      <p>Send an end user a connect link, or connect an account yourself. Existing tokens can be imported with</p>
      <code>latchkey connections import</code>
      <Button onClick={() => navigate(linkTo("/connect"))}>Connect an account</Button>
    </Empty>
  );
