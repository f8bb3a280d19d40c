import { useSignal } from "@preact/signals";
import { TriggerSyncRequest_Mode as Mode, type Script, Script_Kind } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Select } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { syncs } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { say } from "../../state/messages.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";
import { ConnectionField, InputField, useScriptForm } from "./script-form.tsx";

const modes = [
  ["incremental", "Continue where the last run ended"],
  ["full", "Start from the beginning"],
  ["clear", "Delete all records and start from the beginning"],
] as const;

const modeOf: Readonly<Record<string, Mode>> = {
  incremental: Mode.INCREMENTAL,
  full: Mode.FULL_REFRESH,
  clear: Mode.FULL_REFRESH_AND_CLEAR_CACHE,
};

/** Runs a sync or an action now, and leads to its run. */
export function RunDialog({ script, onClose }: { readonly script: Script; readonly onClose: () => void }) {
  const { integration, name, kind } = script;
  const isSync = kind === Script_Kind.SYNC;
  const environment = environmentName.value;
  const form = useScriptForm(script);
  const mode = useSignal("incremental");
  const acting = useAct({ isQuiet: true });

  async function sync(): Promise<readonly string[]> {
    const request = { environment, integration, connectionId: form.connection, names: [name] };
    return (await syncs.triggerSync({ ...request, mode: modeOf[mode.value] ?? Mode.INCREMENTAL })).runIds;
  }
  async function action(): Promise<readonly string[]> {
    const connection = { environment, integration, id: form.connection };
    const { run } = await syncs.runAction({ connection, name, ...form.value, async: true });
    return run === undefined ? [] : [run.id];
  }
  async function submit() {
    let ids: readonly string[] = [];
    const run = async () => {
      ids = await (isSync ? sync() : action());
    };
    if (form.value === undefined || !(await acting.run(run))) return;
    const [id] = ids;
    onClose();
    if (ids.length === 1 && id !== undefined) navigate(linkTo(pathOf("runs", id)));
    else say(ids.length === 0 ? "No connection has this sync." : `${ids.length} runs are queued.`);
  }
  const isReady = form.value !== undefined && (isSync || form.connection !== "");
  return (
    <Dialog
      title={`Run ${name}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy} isDisabled={!isReady}>
            Run now
          </Button>
        </>
      }
    >
      <ConnectionField
        form={form}
        help={isSync ? "Empty runs it for every connection." : `A connection of ${integration}.`}
      />
      {isSync ? (
        <Select label="Mode" value={mode.value} onInput={(value) => (mode.value = value)} options={modes} />
      ) : (
        <InputField form={form} />
      )}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
