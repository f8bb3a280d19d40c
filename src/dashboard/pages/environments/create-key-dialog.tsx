import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import type { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Scope as Scopes } from "../../../gen/latchkey/v1/access_pb.ts";
import { Button, scopeName } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Checkbox, Field, Select } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { environments } from "../../state/clients.ts";
import { environmentName, knownEnvironments } from "../../state/environment.ts";
import { NewSecret, type NewSecretProps } from "./new-secret.tsx";
import { environmentScopes, furtherScopes } from "./scopes.ts";

interface CreateKeyDialogProps {
  /** The environment that the list shows; empty for all. */
  readonly environment: string;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

const everywhere = "";
export const lifetimes = [
  ["", "No expiry"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "1 year"],
] as const;
const dayMs = 86_400_000;

/** When a key ends that lives this many days; undefined for no expiry. */
export const endAfter = (days: string) =>
  days === "" ? {} : { expiresAt: timestampFromMs(Date.now() + Number(days) * dayMs) };

export function CreateKeyDialog({ environment, onMade, onClose }: CreateKeyDialogProps) {
  const id = useSignal("");
  const of = useSignal(environment || environmentName.value);
  const scopes = useSignal<readonly Scope[]>(environmentScopes.map(([scope]) => scope));
  const days = useSignal("");
  const made = useSignal<Pick<NewSecretProps, "of" | "secret"> | undefined>(undefined);
  const acting = useAct({ isQuiet: true });
  const { fault } = acting;
  const fields = fault?.fields ?? {};
  const isControl = of.value === everywhere;

  async function submit() {
    const wanted = {
      id: id.value.trim(),
      environment: of.value,
      scopes: isControl ? [Scopes.ADMIN] : [...scopes.value],
      ...endAfter(days.value),
    };
    await acting.run(async () => {
      const { key, secret } = await environments.createKey(wanted);
      made.value = { of: key?.id ?? "", secret };
      onMade();
    });
  }

  if (made.value !== undefined) return <NewSecret title="Key created" {...made.value} onClose={onClose} />;
  return (
    <Dialog
      title="Create key"
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            kind="primary"
            isBusy={acting.isBusy}
            isDisabled={!isControl && scopes.value.length === 0}
          >
            Create key
          </Button>
        </>
      }
    >
      <Field
        label="Name"
        value={id.value}
        onInput={(value) => (id.value = value)}
        help="Shown in logs and in the audit trail. Empty for a generated name."
        problem={fields["id"]}
        placeholder="backend"
        isFocused
        isCode
      />
      <Select
        label="Environment"
        value={of.value}
        onInput={(value) => (of.value = value)}
        options={[
          ...knownEnvironments.value.map(({ name }) => [name, name] as const),
          [everywhere, "All environments (control key)"],
        ]}
      />
      {isControl ? (
        <p class="quiet">
          A control key may do everything, in every environment. Give it to operators and to automation.
        </p>
      ) : (
        <ScopeChoice chosen={scopes.value} onChange={(value) => (scopes.value = value)} />
      )}
      <Select label="Ends" value={days.value} onInput={(value) => (days.value = value)} options={lifetimes} />
      {fault !== undefined && fields["id"] === undefined && <FaultNotice fault={fault} />}
    </Dialog>
  );
}

interface ScopeChoiceProps {
  readonly chosen: readonly Scope[];
  readonly onChange: (chosen: readonly Scope[]) => void;
}

const ScopeChoice = ({ chosen, onChange }: ScopeChoiceProps) => (
  <fieldset class="scope-grid">
    <legend>Scopes</legend>
    {[...environmentScopes, ...furtherScopes].map(([scope, meaning]) => (
      <Checkbox
        key={scope}
        isChecked={chosen.includes(scope)}
        onChange={(isOn) => onChange(isOn ? [...chosen, scope] : chosen.filter((one) => one !== scope))}
        label={
          <>
            <code>{scopeName(scope)}</code>
            <span class="quiet">{meaning}</span>
          </>
        }
      />
    ))}
  </fieldset>
);
