import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Credentials } from "../../../../gen/latchkey/v1/credentials_pb.ts";
import { Button } from "../../../components/button.tsx";
import { CopyField } from "../../../components/copy.tsx";
import { Dialog } from "../../../components/dialog.tsx";
import { Facts } from "../../../components/page.tsx";
import { words } from "../../../data/format.ts";

interface RevealDialogProps {
  readonly credentials: Credentials;
  readonly onClose: () => void;
}

const shownSeconds = 30;

/** Shows credentials for half a minute. They are in no other part of the page. */
export function RevealDialog({ credentials, onClose }: RevealDialogProps) {
  const left = useSignal(shownSeconds);
  useEffect(() => {
    const timer = setInterval(() => {
      left.value -= 1;
      if (left.peek() <= 0) onClose();
    }, 1_000);
    return () => clearInterval(timer);
  }, []);
  return (
    <Dialog
      title="Credentials"
      onClose={onClose}
      onSubmit={onClose}
      actions={
        <Button type="submit" kind="primary">
          Hide ({left.value} s)
        </Button>
      }
    >
      <p>Anyone with these credentials can act as the end user. The audit trail says that you have seen them.</p>
      <Facts rows={secretsIn(credentials)} />
    </Dialog>
  );
}

/** The texts of the credentials, by the names of their fields. */
function secretsIn({ kind }: Credentials) {
  return Object.entries(kind.value ?? {})
    .filter(([name, value]) => typeof value === "string" && value !== "" && !name.startsWith("$"))
    .map(([name, value]) => {
      const title = words(name.replace(/[A-Z]/g, (letter) => `_${letter}`));
      return [title, <CopyField key={name} text={String(value)} label={title.toLowerCase()} />] as const;
    });
}
