import type { Record as StoredRecord, Sync } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { Code } from "../../components/code.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { FilterBar, SearchFilter, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { Facts, PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { countText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { usePager } from "../../data/pager.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { connectionLink } from "./words.ts";

/** The records that syncs saved for a connection. */
export function RecordsPage({ values: { integration = "", connection: connectionId = "" } }: PageProps) {
  const environment = environmentName.value;
  const variant = queryValue("variant");
  const known = useLoad(
    (signal) => syncs.listSyncs({ environment, integration, connectionId, pageSize: 200 }, { signal }),
    [environment, integration, connectionId],
  );
  const models = modelsOf(known.value?.syncs ?? [], variant);
  const model = queryValue("model") || models[0]?.[0] || "";
  return (
    <PageFrame
      title="Records"
      above={[
        ["Scripts", linkTo("/scripts")],
        [`${integration}/${connectionId}`, connectionLink({ integration, id: connectionId })],
      ]}
      lead={`What syncs saved for ${connectionId}, in the order of the changes.`}
    >
      {known.fault !== undefined && <FaultNotice fault={known.fault} retry={known.reload} />}
      {known.value === undefined && known.fault === undefined && <Skeleton />}
      {known.value !== undefined && model === "" && (
        <Empty title="No models">
          <p>No sync of this connection declares a model. A sync saves records with nango.batchSave.</p>
        </Empty>
      )}
      {model !== "" && (
        <>
          {models.length > 1 && (
            <TabFilter
              name="model"
              label="Model"
              options={models.map(([name, count], i) => [i === 0 ? "" : name, name, countText(count)])}
            />
          )}
          <RecordList place={{ environment, integration, connectionId, model, variant }} />
        </>
      )}
    </PageFrame>
  );
}

const modelsOf = (all: readonly Sync[], variant: string): readonly (readonly [name: string, count: bigint])[] => [
  ...new Map(
    all
      .filter(({ ref }) => (ref?.variant ?? "base") === (variant || "base"))
      .flatMap(({ recordCounts }) => Object.entries(recordCounts)),
  ),
];

interface RecordPlace {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly model: string;
  readonly variant: string;
}

const actionTones: Readonly<Record<string, BadgeTone>> = { ADDED: "good", UPDATED: "info", DELETED: "bad" };
const actionNames: Readonly<Record<string, string>> = { ADDED: "Added", UPDATED: "Changed", DELETED: "Deleted" };

function RecordList({ place }: { readonly place: RecordPlace }) {
  const { environment, integration, connectionId, model, variant } = place;
  const [id, action] = [queryValue("q").trim(), queryValue("action")];
  const openId = queryValue("record");
  const pager = usePager(
    async (pageToken, signal) => {
      const connection = { environment, integration, id: connectionId };
      const filter = { actions: action === "" ? [] : [action], ids: id === "" ? [] : [id] };
      const page = await syncs.listRecords(
        { connection, model, variant, ...filter, pageToken, pageSize: 50 },
        { signal },
      );
      return { items: page.records, nextPageToken: page.nextPageToken };
    },
    [environment, integration, connectionId, model, variant, id, action],
  );
  const columns: readonly TableColumn<StoredRecord>[] = [
    {
      name: "ID",
      show: (record) => (
        <button type="button" class="button link" onClick={() => setQuery({ record: record.id })}>
          {record.id}
        </button>
      ),
    },
    { name: "Last change", show: (record) => <RecordAction record={record} /> },
    { name: "Data", show: (record) => <code class="quiet">{preview(record)}</code>, isMinor: true },
    { name: "When", show: ({ lastModifiedAt }) => <Time at={lastModifiedAt} /> },
  ];
  return (
    <>
      <FilterBar>
        <SearchFilter label="ID of a record" />
        <SelectFilter name="action" label="Last change" options={Object.entries(actionNames)} />
      </FilterBar>
      <PagedTable
        label={`Records of ${model}`}
        pager={pager}
        columns={columns}
        keyOf={(record) => record.id}
        empty={
          <Empty title={id + action === "" ? "No records yet" : "No record fits"}>
            <p>
              {id + action === ""
                ? "They appear after the first successful run of the sync."
                : "Change the filters to see more."}
            </p>
          </Empty>
        }
      />
      {openId !== "" && <OpenRecord place={place} id={openId} />}
    </>
  );
}

function RecordAction({ record: { lastAction, prunedAt } }: { readonly record: StoredRecord }) {
  return (
    <span class="badges">
      <Badge tone={actionTones[lastAction] ?? "quiet"}>{actionNames[lastAction] ?? lastAction}</Badge>
      {prunedAt !== undefined && <Badge tone="quiet">Data pruned</Badge>}
    </span>
  );
}

const previewLength = 120;

function preview({ data }: StoredRecord): string {
  if (data === undefined) return "";
  const text = JSON.stringify(data);
  return text.length > previewLength ? `${text.slice(0, previewLength)}…` : text;
}

/** The record of the address, which may be on a later page of the list. */
function OpenRecord({ place, id }: { readonly place: RecordPlace; readonly id: string }) {
  const { environment, integration, connectionId, model, variant } = place;
  const { value, fault, reload } = useLoad(
    (signal) => {
      const connection = { environment, integration, id: connectionId };
      return syncs.listRecords({ connection, model, variant, ids: [id], pageSize: 1 }, { signal });
    },
    [environment, integration, connectionId, model, variant, id],
  );
  const close = () => setQuery({ record: "" });
  const [record] = value?.records ?? [];
  if (record !== undefined && record.id === id) return <RecordDrawer record={record} onClose={close} />;
  return (
    <Dialog title={id} isDrawer isWide onClose={close}>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton />}
      {value !== undefined && <Empty title="This record does not exist">It may have been removed since.</Empty>}
    </Dialog>
  );
}

const RecordDrawer = ({ record, onClose }: { readonly record: StoredRecord; readonly onClose: () => void }) => (
  <Dialog title={record.id} isDrawer isWide onClose={onClose}>
    <Facts
      rows={[
        ["Last change", <RecordAction key="action" record={record} />],
        ["Changed", <Time key="changed" at={record.lastModifiedAt} />],
        ["First seen", <Time key="first" at={record.firstSeenAt} />],
        ["Deleted", record.deletedAt && <Time at={record.deletedAt} />],
        ["Data pruned", record.prunedAt && <Time at={record.prunedAt} />],
        ["Cursor", <CopyField key="cursor" text={record.cursor} label="cursor" />],
      ]}
    />
    <Code text={JSON.stringify(record.data ?? {}, undefined, 2)} label="record" />
  </Dialog>
);
