import { useSignal } from "@preact/signals";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { environments } from "../../state/clients.ts";
import { loadEnvironments } from "../../state/environment.ts";
import { linkTo, navigate, pathOf } from "../../state/router.ts";

export function CreateEnvironmentDialog({ onClose }: { readonly onClose: () => void }) {
  const name = useSignal("");
  const forwardUrl = useSignal("");
  const acting = useAct({ isQuiet: true });
  const fields = acting.fault?.fields ?? {};

  async function submit() {
    const wanted = { name: name.value.trim(), forwardUrl: forwardUrl.value.trim() };
    const isMade = await acting.run(async () => {
      await environments.createEnvironment(wanted);
      await loadEnvironments();
    }, `Created the environment ${wanted.name}.`);
    if (isMade) navigate(linkTo(pathOf("environments", wanted.name), { env: wanted.name }));
  }

  return (
    <Dialog
      title="Create environment"
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" isBusy={acting.isBusy} isDisabled={name.value.trim() === ""}>
            Create environment
          </Button>
        </>
      }
    >
      <Field
        label="Name"
        value={name.value}
        onInput={(value) => (name.value = value)}
        help="Lower-case letters, digits and dashes. It cannot be changed later."
        problem={fields["name"]}
        placeholder="prod"
        isFocused
        isCode
      />
      <Field
        label="Forward URL (optional)"
        value={forwardUrl.value}
        onInput={(value) => (forwardUrl.value = value)}
        help="Address of your application that gets webhooks and events."
        problem={fields["forward_url"]}
        placeholder="https://app.example.com/hooks"
      />
      {acting.fault !== undefined && Object.keys(fields).length === 0 && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}
