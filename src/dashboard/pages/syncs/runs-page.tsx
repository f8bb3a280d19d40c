import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Run, Run_State } from "../../../gen/latchkey/v1/sync_pb.ts";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { FreshRowsButton, useFreshRows } from "../../components/fresh-rows.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable } from "../../components/table.tsx";
import { usePager } from "../../data/pager.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, queryValue } from "../../state/router.ts";
import { useLiveRuns } from "./live-runs.ts";
import { runColumns, runLink } from "./run-table.tsx";
import { runStateWords } from "./words.ts";

const states = new Map(
  [
    Run_State.QUEUED,
    Run_State.RUNNING,
    Run_State.SUCCEEDED,
    Run_State.FAILED,
    Run_State.CANCELLED,
    Run_State.INTERRUPTED,
  ].map((state) => [runStateWords(state)[0].toLowerCase(), state] as const),
);

/** Runs of all scripts, newest first, as they happen. */
export function RunsPage() {
  const isLive = useSignal(true);
  const environment = environmentName.value;
  const [script, integration, connectionId] = [queryValue("q"), queryValue("integration"), queryValue("connection")];
  const state = states.get(queryValue("state"));
  const filter = { environment, script, integration, connectionId: integration === "" ? "" : connectionId };
  const read = async (pageToken: string, signal?: AbortSignal) => {
    const request = { ...filter, states: state === undefined ? [] : [state], pageToken, pageSize: 50 };
    const page = await syncs.listRuns(request, signal === undefined ? {} : { signal });
    return { items: page.runs, nextPageToken: page.nextPageToken };
  };
  const pager = usePager(read, [environment, script, integration, connectionId, state]);
  const fresh = useFreshRows(pager);
  useEffect(() => fresh.clear(), [environment, script, integration, connectionId, state]);
  const isWanted = (run: Run) => state === undefined || run.state === state;
  const watch = useLiveRuns({
    filter,
    pager,
    isWanted,
    onNew: fresh.add,
    readFirst: () => read(""),
    isOn: isLive.value,
  });
  const isFiltered = [script, integration, queryValue("state")].some((text) => text !== "");
  return (
    <PageFrame
      title="Runs"
      above={[["Scripts", linkTo("/scripts")]]}
      lead={connectionId === "" ? "What your scripts did, newest first." : `Runs of ${integration}/${connectionId}.`}
      actions={<LiveSwitch state={watch} isOn={isLive.value} onChange={(isOn) => (isLive.value = isOn)} />}
    >
      <FilterBar>
        <SearchFilter label="Name of a script" />
        <SelectFilter name="state" label="State" options={[...states.keys()].map((name) => [name, name])} />
      </FilterBar>
      <FreshRowsButton rows={fresh} what="run" />
      <PagedTable
        label="Runs"
        pager={pager}
        columns={runColumns}
        keyOf={({ id }) => id}
        linkOf={runLink}
        empty={
          <Empty title={isFiltered ? "No run fits" : "No runs yet"}>
            <p>
              {isFiltered
                ? "Change the filters to see more."
                : "A sync runs on its schedule, or when you run it on the page of its script."}
            </p>
          </Empty>
        }
      />
    </PageFrame>
  );
}
