import { useSignal } from "@preact/signals";
import { Confirm } from "../../components/confirm.tsx";
import { Field } from "../../components/field.tsx";
import { webhooks } from "../../state/clients.ts";

interface PauseDialogProps {
  readonly environment: string;
  readonly url: string;
  readonly onClose: () => void;
}

/** Pauses a destination, with a reason for other people. */
export function PauseDialog({ environment, url, onClose }: PauseDialogProps) {
  const reason = useSignal("");
  return (
    <Confirm
      title="Pause this destination"
      verb="Pause"
      done="Paused"
      act={() => webhooks.pauseDestination({ environment, url, reason: reason.value.trim() })}
      onClose={onClose}
    >
      <p>
        Deliveries to <code>{url}</code> wait until somebody resumes it. When very many wait, providers are asked to
        send again later.
      </p>
      <Field
        label="Reason"
        placeholder="Database upgrade until noon"
        help="Others see it here, with your name."
        value={reason.value}
        onInput={(value) => (reason.value = value)}
        isFocused
      />
    </Confirm>
  );
}
