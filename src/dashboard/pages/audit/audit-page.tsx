import type { AuditEvent } from "../../../gen/latchkey/v1/log_pb.ts";
import { FilterBar, SearchFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { usePager } from "../../data/pager.ts";
import { logs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { queryValue } from "../../state/router.ts";

const columns: readonly TableColumn<AuditEvent>[] = [
  { name: "Action", show: ({ action }) => action },
  { name: "By", show: ({ actor }) => actor },
  { name: "On", show: ({ targets }) => targets.join(", ") },
  { name: "Fields", show: ({ fields }) => fields.join(", "), isMinor: true },
  { name: "When", show: ({ at }) => <Time at={at} /> },
];

/** The list of changes, with the key that made each. */
export function AuditPage() {
  const [environment, action] = [environmentName.value, queryValue("q")];
  const pager = usePager(
    async (pageToken, signal) => {
      const page = await logs.listAuditEvents({ environment, action, pageToken, pageSize: 50 }, { signal });
      return { items: page.events, nextPageToken: page.nextPageToken };
    },
    [environment, action],
  );
  return (
    <PageFrame title="Audit" lead="Every change that a key made.">
      <FilterBar>
        <SearchFilter label="Action, such as connection.import" />
      </FilterBar>
      <PagedTable
        label="Audit events"
        pager={pager}
        columns={columns}
        keyOf={({ id }) => id}
        empty={<Empty title="No audit events">Nothing was changed yet, or nothing fits the filters.</Empty>}
      />
    </PageFrame>
  );
}
