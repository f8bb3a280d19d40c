import { useSignal } from "@preact/signals";
import type { Sync } from "../../../gen/latchkey/v1/sync_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { syncs } from "../../state/clients.ts";
import { frequencyText } from "./words.ts";

interface FrequencyDialogProps {
  readonly sync: Sync;
  readonly onChange: (sync: Sync | undefined) => void;
  readonly onClose: () => void;
}

/** Changes how often a sync runs for one connection. */
export function FrequencyDialog({ sync: { ref, frequency }, onChange, onClose }: FrequencyDialogProps) {
  const text = useSignal(frequency);
  const acting = useAct({ isQuiet: true });
  if (ref === undefined) return null;
  const problem = acting.fault?.fields["frequency"];
  const set = (wanted: string) => async () => {
    onChange((await syncs.setSyncFrequency({ ref, frequency: wanted })).sync);
  };
  const submit = async (wanted: string) => {
    if (await acting.run(set(wanted), "The schedule was changed.")) onClose();
  };
  return (
    <Dialog
      title={`Schedule for ${ref.connection?.id ?? ""}`}
      onClose={onClose}
      onSubmit={() => void submit(text.value)}
      actions={
        <>
          <Button onClick={() => void submit("")}>Use the script's</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy} isDisabled={text.value.trim() === ""}>
            Save schedule
          </Button>
        </>
      }
    >
      <Field
        label="Run"
        value={text.value}
        onInput={(value) => {
          text.value = value;
          acting.forget();
        }}
        problem={problem === undefined ? undefined : `It ${problem}.`}
        help={`Such as every 5 minutes, every hour, 1d. Now: ${frequencyText(frequency)}.`}
        isFocused
      />
      {acting.fault !== undefined && problem === undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
