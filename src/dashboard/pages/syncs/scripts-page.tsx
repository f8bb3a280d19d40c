import { useEffect } from "preact/hooks";
import type { Script } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { counted } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { syncs } from "../../state/clients.ts";
import { linkTo, queryValue } from "../../state/router.ts";
import { frequencyText, kindNames, scriptLink } from "./words.ts";

const columns: readonly TableColumn<Script>[] = [
  { name: "Script", show: ({ name }) => name },
  { name: "Kind", show: ({ kind }) => kindNames[kind] },
  { name: "Integration", show: ({ integration }) => integration },
  { name: "State", show: (script) => <ScriptState script={script} /> },
  { name: "Runs", show: ({ frequency }) => frequencyText(frequency), isMinor: true },
  { name: "Description", show: (script) => <ScriptGist script={script} />, isMinor: true },
];

/** All script files, with what is wrong with them. */
export function ScriptsPage() {
  const { value, fault, reload } = useLoad((signal) => syncs.listScripts({}, { signal }), []);
  useEffect(() => {
    // Back from the editor.
    const look = () => {
      if (document.visibilityState === "visible") reload();
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [reload]);
  const [text, kind, integration] = [queryValue("q").toLowerCase(), queryValue("kind"), queryValue("integration")];
  const all = value?.scripts ?? [];
  const shown = all.filter(
    (script) =>
      (kind === "" || kindNames[script.kind] === kind) &&
      (integration === "" || script.integration === integration) &&
      `${script.integration} ${script.name} ${script.description}`.toLowerCase().includes(text),
  );
  const broken = all.filter(({ problem }) => problem !== undefined);
  const integrations = [...new Set(all.map((one) => one.integration))];
  return (
    <PageFrame
      title="Scripts"
      lead="Your syncs, actions and event scripts."
      actions={
        <a class="button plain" href={linkTo("/runs")}>
          All runs
        </a>
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton />}
      {value !== undefined && all.length === 0 && <NoScripts />}
      {all.length > 0 && (
        <>
          {broken.length > 0 && (
            <Notice tone="bad">
              {counted(broken.length, "script has", "scripts have")} mistakes. Open it to see the file and line.
            </Notice>
          )}
          <FilterBar>
            <SearchFilter label="Search scripts" />
            <SelectFilter name="kind" label="Kind" options={["sync", "action", "event"].map((one) => [one, one])} />
            {integrations.length > 1 && (
              <SelectFilter name="integration" label="Integration" options={integrations.map((one) => [one, one])} />
            )}
          </FilterBar>
          {shown.length === 0 ? (
            <Empty title="No script fits">Change the filters to see more.</Empty>
          ) : (
            <Table
              label="Scripts"
              columns={columns}
              rows={shown}
              keyOf={(script) => scriptLink(script.integration, script.kind, script.name)}
              linkOf={(script) => scriptLink(script.integration, script.kind, script.name)}
            />
          )}
        </>
      )}
    </PageFrame>
  );
}

/** What a script does, or the first mistake of its file. */
function ScriptGist({ script: { description, problem } }: { readonly script: Script }) {
  const [mistake] = problem?.violations ?? [];
  if (mistake === undefined) return <span class="quiet">{description}</span>;
  const place = mistake.path.split("/").at(-1) ?? "";
  return (
    <span class="bad-text">
      {place}: {mistake.message}
    </span>
  );
}

/** A broken script keeps running in its last valid version, if there was one. */
export function ScriptState({ script: { problem, version } }: { readonly script: Script }) {
  if (problem === undefined) return <Badge tone="good">Valid</Badge>;
  return version === "" ? <Badge tone="bad">Broken</Badge> : <Badge tone="warn">Broken, old version runs</Badge>;
}

const NoScripts = () => (
  <Empty title="No scripts yet">
    <p>
      Scripts are TypeScript files that fetch data on a schedule or run on demand. Set <code>LATCHKEY_SCRIPTS</code> to
      a folder and add <code>calendar/syncs/events.ts</code> to it.
    </p>
  </Empty>
);
