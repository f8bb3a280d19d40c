import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useAct } from "../data/act.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Field } from "./field.tsx";
import { FaultNotice } from "./states.tsx";

interface ConfirmProps {
  readonly title: string;
  /** What happens and whether it can be undone. */
  readonly children: ComponentChildren;
  /** The verb of the main button, such as "Delete 3 connections". */
  readonly verb: string;
  readonly isDanger?: boolean;
  /** What the person must type first, for what cannot be undone: a name, or a count. */
  readonly typed?: string;
  readonly act: () => Promise<unknown>;
  readonly done?: string;
  readonly onClose: () => void;
}

/** Asks before something that is hard to undo. */
export function Confirm({ title, children, verb, isDanger = false, typed, act, done, onClose }: ConfirmProps) {
  const text = useSignal("");
  const acting = useAct({ isQuiet: true });
  const isReady = typed === undefined || text.value.trim() === typed;
  async function submit() {
    if (isReady && (await acting.run(act, done))) onClose();
  }
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind={isDanger ? "danger" : "primary"} isBusy={acting.isBusy} isDisabled={!isReady}>
            {verb}
          </Button>
        </>
      }
    >
      {children}
      {typed !== undefined && (
        <Field
          label={`Type ${typed} to confirm`}
          value={text.value}
          onInput={(value) => (text.value = value)}
          isFocused
        />
      )}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
