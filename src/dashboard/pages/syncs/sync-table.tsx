import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Sync, Sync_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { countText } from "../../data/format.ts";
import { usePager } from "../../data/pager.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { FrequencyDialog } from "./frequency-dialog.tsx";
import { runLink } from "./run-table.tsx";
import { connectionLink, frequencyText, recordsLink, recordTotal, syncStateWords } from "./words.ts";

interface SyncTableProps {
  readonly integration: string;
  readonly name: string;
  /** Counts the changes of runs that were seen: after each, the states of the syncs are read again. */
  readonly changes: number;
}

const settleMs = 300;

/** The connections that a sync runs for, with their schedules. */
export function SyncTable({ integration, name, changes }: SyncTableProps) {
  const environment = environmentName.value;
  const pager = usePager(
    async (pageToken, signal) => {
      const request = { environment, integration, names: [name], pageToken, pageSize: 50 };
      const page = await syncs.listSyncs(request, { signal });
      return { items: page.syncs, nextPageToken: page.nextPageToken };
    },
    [environment, integration, name],
  );
  const changing = useSignal<Sync | undefined>(undefined);
  const put = (sync: Sync | undefined) => {
    if (sync !== undefined) pager.edit((all) => all.map((one) => (keyOf(one) === keyOf(sync) ? sync : one)));
  };
  useEffect(() => {
    if (changes === 0) return undefined;
    const timer = setTimeout(pager.reload, settleMs);
    return () => clearTimeout(timer);
  }, [changes]);
  const columns: readonly TableColumn<Sync>[] = [
    ...syncColumns,
    {
      name: "Actions",
      show: (sync) => <SyncActions sync={sync} onChange={put} onFrequency={() => (changing.value = sync)} />,
    },
  ];
  return (
    <Section title="Connections">
      <PagedTable
        label="Connections of this sync"
        pager={pager}
        columns={columns}
        keyOf={keyOf}
        empty={
          <Empty title="No connection yet">The sync starts for each connection of {integration} that is made.</Empty>
        }
      />
      {changing.value !== undefined && (
        <FrequencyDialog sync={changing.value} onChange={put} onClose={() => (changing.value = undefined)} />
      )}
    </Section>
  );
}

const keyOf = ({ ref }: Sync): string => [ref?.connection?.id, ref?.name, ref?.variant].join("\n");

const syncColumns: readonly TableColumn<Sync>[] = [
  {
    name: "Connection",
    show: ({ ref }) =>
      ref?.connection && (
        <>
          <a href={connectionLink(ref.connection)}>{ref.connection.id}</a>
          {ref.variant !== "base" && <span class="quiet"> ({ref.variant})</span>}
        </>
      ),
  },
  { name: "State", show: (sync) => <SyncState sync={sync} /> },
  { name: "Runs", show: ({ frequency }) => frequencyText(frequency), isMinor: true },
  {
    name: "Last run",
    show: ({ latestRun }) =>
      latestRun === undefined ? (
        <span class="quiet">Never</span>
      ) : (
        <a href={runLink(latestRun)}>
          <Time at={latestRun.startedAt ?? latestRun.dueAt} />
        </a>
      ),
  },
  { name: "Next run", show: ({ nextRunAt }) => <Time at={nextRunAt} />, isMinor: true },
  {
    name: "Records",
    show: (sync) => sync.ref && <a href={recordsLink(sync.ref)}>{countText(recordTotal(sync))}</a>,
    isNumber: true,
    isMinor: true,
  },
];

function SyncState({ sync: { state, latestRun } }: { readonly sync: Sync }) {
  const [name, tone] = syncStateWords(state);
  const why = state === Sync_State.FAILED ? latestRun?.problem?.message : undefined;
  return (
    <Badge tone={tone} {...(why !== undefined && { title: why })}>
      {name}
    </Badge>
  );
}

interface SyncActionsProps {
  readonly sync: Sync;
  readonly onChange: (sync: Sync | undefined) => void;
  readonly onFrequency: () => void;
}

function SyncActions({ sync, onChange, onFrequency }: SyncActionsProps) {
  const acting = useAct();
  const { ref, state, revision } = sync;
  const { connection } = ref ?? {};
  if (ref === undefined || connection === undefined) return null;
  const isPaused = state === Sync_State.PAUSED;
  const { environment, integration, id: connectionId } = connection;
  const name = ref.variant === "base" ? ref.name : `${ref.name}::${ref.variant}`;
  const run = () => syncs.triggerSync({ environment, integration, connectionId, names: [name] });
  const toggle = async () => {
    const request = { ref, expectedRevision: revision };
    onChange((await (isPaused ? syncs.startSync(request) : syncs.pauseSync(request))).sync);
  };
  return (
    <div class="row-actions">
      <Button
        isSmall
        needs={Scope.SYNCS}
        label={`Run for ${connectionId}`}
        onClick={() => void acting.run(run, "The run is queued.")}
      >
        Run
      </Button>
      <Button
        isSmall
        needs={Scope.SYNCS}
        label={`${isPaused ? "Resume" : "Pause"} for ${connectionId}`}
        onClick={() => void acting.run(toggle)}
      >
        {isPaused ? "Resume" : "Pause"}
      </Button>
      <Button isSmall needs={Scope.SYNCS} label={`Change the schedule for ${connectionId}`} onClick={onFrequency}>
        Schedule
      </Button>
    </div>
  );
}
