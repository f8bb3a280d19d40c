import { useSignal } from "@preact/signals";
import type { Key, RotateKeyResponse } from "../../../gen/latchkey/v1/environment_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field, Select } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { environments } from "../../state/clients.ts";
import { endAfter, lifetimes } from "./create-key-dialog.tsx";
import { NewSecret } from "./new-secret.tsx";
import { defaultOverlap, overlapOf, overlaps } from "./overlaps.ts";

interface RotateKeyDialogProps {
  readonly of: Key;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

/** Creates the successor of a key. */
export function RotateKeyDialog({ of: { id, revision }, onMade, onClose }: RotateKeyDialogProps) {
  const newId = useSignal("");
  const hours = useSignal<string>(defaultOverlap);
  const days = useSignal("");
  const made = useSignal<RotateKeyResponse | undefined>(undefined);
  const acting = useAct({ isQuiet: true });
  const { fault } = acting;

  async function submit() {
    const wanted = {
      id,
      newId: newId.value.trim(),
      overlap: overlapOf(hours.value),
      expectedRevision: revision,
      ...endAfter(days.value),
    };
    await acting.run(async () => {
      made.value = await environments.rotateKey(wanted);
      onMade();
    });
  }

  if (made.value !== undefined) {
    const { key, secret, previous } = made.value;
    return (
      <NewSecret title="Key rotated" of={key?.id ?? ""} secret={secret} onClose={onClose}>
        <p>
          {previous === undefined ? (
            <>The old key {id} was revoked.</>
          ) : (
            <>
              The old key {id} ends <Time at={previous.expiresAt} />. Give the new secret to its callers before.
            </>
          )}
        </p>
      </NewSecret>
    );
  }
  return (
    <Dialog
      title={`Rotate the key ${id}`}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy}>
            Rotate key
          </Button>
        </>
      }
    >
      <p>Creates a new key with the same environment and scopes. The old key works until the end of the overlap.</p>
      <Field
        label="Name of the new key"
        value={newId.value}
        onInput={(value) => (newId.value = value)}
        help="Empty for the old name with the next number."
        problem={fault?.fields["new_id"]}
        isFocused
        isCode
      />
      <Select
        label="The old key also works for"
        value={hours.value}
        onInput={(value) => (hours.value = value)}
        options={overlaps}
      />
      <Select
        label="The new key ends"
        value={days.value}
        onInput={(value) => (days.value = value)}
        options={lifetimes}
      />
      {fault !== undefined && fault.fields["new_id"] === undefined && <FaultNotice fault={fault} />}
    </Dialog>
  );
}
