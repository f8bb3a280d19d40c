import { toJsonString } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Run, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Table, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { countText, durationText, msOf } from "../../data/format.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { RunConsole } from "./run-console.tsx";
import { durationMs, RunState } from "./run-table.tsx";
import { useRun } from "./use-run.ts";
import { causes, connectionLink, connectionText, isOver, kindNames, remedyOf, scriptLink } from "./words.ts";

/** One run: its console while it runs, its result, and what to do if it failed. */
export function RunPage({ values: { id = "" } }: PageProps) {
  const environment = environmentName.value;
  const watched = useRun(environment, id);
  const { run, fault } = watched;
  const above = [
    ["Scripts", linkTo("/scripts")],
    ["Runs", linkTo("/runs")],
  ] as const;
  if (run === undefined) {
    return (
      <PageFrame title="Run" above={above}>
        {fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={watched.reload} />}
      </PageFrame>
    );
  }
  return (
    <PageFrame
      title={run.script}
      above={above}
      lead={<RunLead run={run} />}
      actions={<RunActions run={run} environment={environment} />}
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={watched.reload} />}
      <RunFailure run={run} />
      <div class="columns">
        <div>
          <RunConsole watched={watched} run={run} />
          <RunOutput run={run} />
        </div>
        <aside>
          <RunFacts run={run} />
        </aside>
      </div>
    </PageFrame>
  );
}

const RunLead = ({ run }: { readonly run: Run }) => (
  <>
    <RunState run={run} /> {kindNames[run.kind]} on {connectionText(run)}
  </>
);

function RunActions({ run, environment }: { readonly run: Run; readonly environment: string }) {
  const acting = useAct();
  const { connection } = run;
  if (!isOver(run)) {
    return (
      <Button
        kind="danger"
        needs={Scope.SYNCS}
        isBusy={acting.isBusy}
        onClick={() =>
          void acting.run(() => syncs.cancelRun({ environment, id: run.id }), "The run is being cancelled.")
        }
      >
        Cancel run
      </Button>
    );
  }
  if (run.kind !== Script_Kind.SYNC || connection === undefined) return null;
  const again = async () => {
    const request = {
      environment,
      integration: connection.integration,
      connectionId: connection.id,
      names: [run.script],
    };
    const { runIds } = await syncs.triggerSync(request);
    const [next] = runIds;
    if (next !== undefined) navigate(linkTo(pathOf("runs", next)));
  };
  return (
    <Button kind="primary" needs={Scope.SYNCS} isBusy={acting.isBusy} onClick={() => void acting.run(again)}>
      Run again
    </Button>
  );
}

function RunFailure({ run }: { readonly run: Run }) {
  const { problem, error, connection } = run;
  if (problem === undefined) return null;
  const { upstreamResponse } = error ?? {};
  return (
    <Notice tone="bad">
      <p>
        <b>{problem.message}</b>
      </p>
      <p>{remedyOf(run)}</p>
      {upstreamResponse !== undefined && (
        <>
          <p>The provider answered {upstreamResponse.status}:</p>
          {upstreamResponse.body !== undefined && (
            <Code text={toJsonString(ValueSchema, upstreamResponse.body, { prettySpaces: 2 })} label="answer" />
          )}
        </>
      )}
      <p class="notice-foot">
        <code>{problem.code}</code>
        {connection !== undefined && <a href={connectionLink(connection)}>Open the connection</a>}
        {connection !== undefined && run.version !== "" && (
          <a href={scriptLink(connection.integration, run.kind, run.script)}>Open the script</a>
        )}
      </p>
    </Notice>
  );
}

function RunOutput({ run: { output, problem } }: { readonly run: Run }) {
  if (output === undefined) return null;
  return (
    <Section title={problem === undefined ? "Output" : "Payload of the error"}>
      <Code text={toJsonString(ValueSchema, output, { prettySpaces: 2 })} label="output" />
    </Section>
  );
}

interface ModelCounts {
  readonly model: string;
  readonly added: bigint;
  readonly updated: bigint;
  readonly deleted: bigint;
}

const countColumns: readonly TableColumn<ModelCounts>[] = [
  { name: "Model", show: ({ model }) => model },
  { name: "Added", show: ({ added }) => countText(added), isNumber: true },
  { name: "Changed", show: ({ updated }) => countText(updated), isNumber: true },
  { name: "Deleted", show: ({ deleted }) => countText(deleted), isNumber: true },
];

/** The time, each second. */
function useClock(isOn: boolean): number {
  const time = useSignal(Date.now());
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => {
      time.value = Date.now();
    }, 1_000);
    return () => clearInterval(timer);
  }, [isOn]);
  return time.value;
}

function RunFacts({ run }: { readonly run: Run }) {
  const { connection, counts } = run;
  const startedMs = msOf(run.startedAt);
  const nowMs = useClock(!isOver(run));
  const ms = isOver(run) ? durationMs(run) : startedMs === undefined ? undefined : Math.max(0, nowMs - startedMs);
  const models = Object.entries(counts).map(([model, of]) => ({ ...of, model }));
  return (
    <>
      <Section title="Details">
        <div class="card">
          <Facts
            rows={[
              ["Connection", connection && <a href={connectionLink(connection)}>{connectionText(run)}</a>],
              ["Started by", causes[run.cause] ?? run.cause],
              ["Due", <Time at={run.dueAt} />],
              ["Started", run.startedAt && <Time at={run.startedAt} />],
              ["Duration", ms !== undefined && durationText(ms)],
              [
                "Script",
                connection && run.version !== "" && (
                  <a href={scriptLink(connection.integration, run.kind, run.script)}>{run.script}</a>
                ),
              ],
              ["Version", run.version !== "" && <code>{run.version}</code>],
              ["Log", run.logId !== "" && isOver(run) && <a href={linkTo(pathOf("logs", run.logId))}>Open the log</a>],
              ["Run", <code>{run.id}</code>],
            ]}
          />
        </div>
      </Section>
      {models.length > 0 && (
        <Section
          title="Records"
          actions={
            connection && (
              <a href={linkTo(pathOf("records", connection.integration, connection.id), { model: models[0]?.model })}>
                Browse
              </a>
            )
          }
        >
          <Table label="Changed records" columns={countColumns} rows={models} keyOf={({ model }) => model} />
        </Section>
      )}
    </>
  );
}
