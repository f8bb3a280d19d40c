import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Run, type Script, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Button } from "../../components/button.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { PagedTable } from "../../components/table.tsx";
import { useLoad } from "../../data/load.ts";
import { usePager } from "../../data/pager.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, queryValue, setQuery } from "../../state/router.ts";
import { DryRunDialog } from "./dry-run-dialog.tsx";
import { useLiveRuns } from "./live-runs.ts";
import { RunDialog } from "./run-dialog.tsx";
import { runColumns, runLink } from "./run-table.tsx";
import { ScriptMistakes, ScriptSource } from "./script-source.tsx";
import { ScriptState } from "./scripts-page.tsx";
import { SyncTable } from "./sync-table.tsx";
import { frequencyText, kindNames, kindOf } from "./words.ts";

/** One script: the connections that it runs for, its runs and its source. */
export function ScriptPage({ values }: PageProps) {
  const { integration = "", name = "" } = values;
  const kind = kindOf(values["kind"] ?? "");
  const { value, fault, reload } = useLoad(
    (signal) => syncs.getScript({ integration, name, kind }, { signal }),
    [integration, name, kind],
  );
  const dialog = queryValue("open");
  const close = () => setQuery({ open: "" });
  const script = value?.script;
  const canRun = script !== undefined && script.version !== "" && kind !== Script_Kind.EVENT;
  return (
    <PageFrame
      title={name}
      above={[["Scripts", linkTo("/scripts")]]}
      lead={script?.description || `A script of ${integration}.`}
      actions={
        <>
          <Button
            needs={Scope.SYNCS}
            isDisabled={script === undefined || script.version === ""}
            onClick={() => setQuery({ open: "dry-run" })}
          >
            Dry run
          </Button>
          {kind !== Script_Kind.EVENT && (
            <Button kind="primary" needs={Scope.SYNCS} isDisabled={!canRun} onClick={() => setQuery({ open: "run" })}>
              Run now
            </Button>
          )}
        </>
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {script === undefined && fault === undefined && <Skeleton />}
      {script !== undefined && (
        <>
          <ScriptMistakes script={script} />
          <ScriptFacts script={script} />
          <ScriptActivity script={script} />
          <ScriptSource source={value?.source ?? ""} isCut={value?.sourceTruncated ?? false} />
        </>
      )}
      {script !== undefined && dialog === "run" && <RunDialog script={script} onClose={close} />}
      {script !== undefined && dialog === "dry-run" && <DryRunDialog script={script} onClose={close} />}
    </PageFrame>
  );
}

const ScriptFacts = ({ script }: { readonly script: Script }) => (
  <div class="card facts-grid">
    <Facts
      rows={[
        ["State", <ScriptState key="state" script={script} />],
        ["Kind", kindNames[script.kind]],
        ["Integration", script.integration],
        ["Runs", frequencyText(script.frequency)],
        ["Saves", script.models.join(", ")],
        ["Receives webhooks", script.webhookSubscriptions.join(", ")],
        ["Routes", script.endpoints.join(", ")],
        ["Version", script.version !== "" && <code>{script.version}</code>],
      ]}
    />
  </div>
);

/** The syncs of a script, and its latest runs, as they happen. */
function ScriptActivity({ script: { integration, name, kind } }: { readonly script: Script }) {
  const environment = environmentName.value;
  const changes = useSignal(0);
  // Scripts of different kinds may have the same name.
  const isWanted = (run: Run) => run.kind === kind;
  const filter = { environment, integration, connectionId: "", script: name };
  const read = async (pageToken: string, signal?: AbortSignal) => {
    const request = { ...filter, pageToken, pageSize: 10 };
    const page = await syncs.listRuns(request, signal === undefined ? {} : { signal });
    return { items: page.runs.filter(isWanted), nextPageToken: page.nextPageToken };
  };
  const pager = usePager(read, [environment, integration, name]);
  const onNew = (run: Run) => pager.edit((runs) => [run, ...runs]);
  useLiveRuns({ filter, pager, isWanted, onNew, onChange: () => (changes.value += 1), readFirst: () => read("") });
  return (
    <>
      {kind === Script_Kind.SYNC && <SyncTable integration={integration} name={name} changes={changes.value} />}
      <Section title="Runs" actions={<a href={linkTo("/runs", { q: name, integration })}>All runs</a>}>
        <PagedTable
          label="Runs of this script"
          pager={pager}
          columns={runColumns}
          keyOf={({ id }) => id}
          linkOf={runLink}
          empty={<Empty title="No runs yet">Run the script now, or wait for its schedule.</Empty>}
        />
      </Section>
    </>
  );
}
