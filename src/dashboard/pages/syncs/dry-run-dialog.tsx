import { toJsonString } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { type Script, Script_Kind, type TestScriptResponse } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Checkbox } from "../../components/field.tsx";
import { LogLines } from "../../components/log-lines.tsx";
import { FaultNotice, Notice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { counted, durationText } from "../../data/format.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { durationMs, RunState } from "./run-table.tsx";
import { ConnectionField, InputField, useScriptForm } from "./script-form.tsx";
import { remedyOf } from "./words.ts";

/** Longer than any dry run. */
const timeoutMs = 130_000;

/** Runs a script without saving anything, and shows what it would have saved. */
export function DryRunDialog({ script, onClose }: { readonly script: Script; readonly onClose: () => void }) {
  const { integration, name, kind } = script;
  const environment = environmentName.value;
  const form = useScriptForm(script);
  const onWebhook = useSignal(false);
  const answer = useSignal<TestScriptResponse | undefined>(undefined);
  const acting = useAct({ isQuiet: true });
  const test = async () => {
    const connection = { environment, integration, id: form.connection };
    const request = { connection, name, kind, ...form.value, onWebhook: onWebhook.value };
    answer.value = await syncs.testScript(request, { timeoutMs });
  };
  const canHandle = kind === Script_Kind.SYNC && script.webhookSubscriptions.length > 0;
  const isReady = form.value !== undefined && form.connection !== "";
  return (
    <Dialog
      title={`Dry run of ${name}`}
      isDrawer
      isWide
      onClose={onClose}
      onSubmit={() => {
        if (isReady) void acting.run(test);
      }}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy} isDisabled={!isReady}>
            Start dry run
          </Button>
        </>
      }
    >
      <p class="quiet">Requests go to the provider. Records, metadata and checkpoints are not changed.</p>
      <ConnectionField form={form} />
      {canHandle && (
        <Checkbox
          label="Handle a webhook instead of a scheduled run"
          isChecked={onWebhook.value}
          onChange={(isChecked) => (onWebhook.value = isChecked)}
        />
      )}
      {(kind !== Script_Kind.SYNC || onWebhook.value) && (
        <InputField form={form} label={onWebhook.value ? "Webhook" : "Input"} />
      )}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      {answer.value !== undefined && <DryRunResult answer={answer.value} />}
    </Dialog>
  );
}

function DryRunResult({ answer }: { readonly answer: TestScriptResponse }) {
  const { run, lines, recordChanges } = answer;
  if (run === undefined) return null;
  const ms = durationMs(run);
  return (
    <section class="dry-run" aria-label="Result">
      <p>
        <RunState run={run} /> {ms !== undefined && <span class="quiet">in {durationText(ms)}</span>}
      </p>
      {run.problem !== undefined && (
        <Notice tone="bad">
          <p>
            <b>{run.problem.message}</b>
          </p>
          <p>{remedyOf(run)}</p>
        </Notice>
      )}
      {recordChanges.map(({ model, action, count, records }) => (
        <div key={`${action} ${model}`}>
          <h3>
            Would {action} {counted(count, "record")} of {model}
          </h3>
          <Code
            text={records.map((record) => JSON.stringify(record, undefined, 2)).join("\n")}
            label={`records of ${model}`}
          />
        </div>
      ))}
      {run.kind === Script_Kind.SYNC && run.problem === undefined && recordChanges.length === 0 && (
        <p class="quiet">No record would change.</p>
      )}
      <CheckpointChange answer={answer} />
      {run.output !== undefined && (
        <div>
          <h3>{run.problem === undefined ? "Output" : "Payload of the error"}</h3>
          <Code text={toJsonString(ValueSchema, run.output, { prettySpaces: 2 })} label="output" />
        </div>
      )}
      {lines.length > 0 && (
        <div>
          <h3>Log</h3>
          <LogLines lines={lines} label="Log of the dry run" />
        </div>
      )}
    </section>
  );
}

function CheckpointChange({ answer }: { readonly answer: TestScriptResponse }) {
  const { checkpoint, savedCheckpoint, checkpointCleared } = answer;
  if (savedCheckpoint === undefined && !checkpointCleared) return null;
  const before = checkpoint === undefined ? "none" : JSON.stringify(checkpoint);
  const after = savedCheckpoint === undefined ? "none" : JSON.stringify(savedCheckpoint);
  return (
    <div>
      <h3>Would change the checkpoint</h3>
      <Code text={`- ${before}\n+ ${after}`} label="change of the checkpoint" />
    </div>
  );
}
