import type { ComponentChildren } from "preact";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Notice } from "../../components/states.tsx";

export interface NewSecretProps {
  readonly title: string;
  /** The name of what has the secret. */
  readonly of: string;
  readonly secret: string;
  readonly children?: ComponentChildren;
  readonly onClose: () => void;
}

/** Shows a new secret once. */
export const NewSecret = ({ title, of, secret, children, onClose }: NewSecretProps) => (
  <Dialog
    title={title}
    onClose={onClose}
    onSubmit={onClose}
    actions={
      <Button type="submit" kind="primary">
        Done
      </Button>
    }
  >
    <p>
      This is the secret of <strong>{of}</strong>:
    </p>
    <div class="new-secret">
      <CopyField text={secret} label="secret" />
    </div>
    <Notice tone="warn">Save it now, for example in your secret manager. It is not shown again.</Notice>
    {children}
  </Dialog>
);
