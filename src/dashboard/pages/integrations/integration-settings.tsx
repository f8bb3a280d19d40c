import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration, IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { counted } from "../../data/format.ts";
import { integrations } from "../../state/clients.ts";
import { may } from "../../state/session.ts";
import { ConflictDialog, type FieldConflict } from "./conflict-dialog.tsx";
import { FurtherSettings, type FurtherSettingsProps, furtherTitles } from "./further-settings.tsx";
import { SetupField } from "./setup-field.tsx";
import { changedPaths, integrationOf, maskPathOf, problemOf, type SetupValues, valuesOf } from "./setup-values.ts";

interface IntegrationSettingsProps {
  readonly environment: string;
  readonly integration: Integration;
  readonly setup: IntegrationSetup;
  readonly onSaved: () => void;
}

/** The settings of an integration. Only what the person changed is sent; a change by another is shown first. */
export function IntegrationSettings({ environment, integration, setup, onSaved }: IntegrationSettingsProps) {
  const base = useSignal<Integration>(integration);
  const values = useSignal<SetupValues>(valuesOf(integration));
  const secrets = useSignal<SetupValues>({});
  const theirs = useSignal<Integration | undefined>(undefined);
  const round = useSignal(0);
  const acting = useAct({ isQuiet: true });
  const stored = valuesOf(base.value);
  const changed = [
    ...changedPaths(stored, values.value),
    ...Object.keys(secrets.value).filter((path) => secrets.value[path] !== ""),
  ];
  const isDirty = changed.length > 0;
  useWarnOnLeave(isDirty);
  const isReadOnly = integration.declared || !may(Scope.INTEGRATIONS_WRITE);
  const set = (path: string, value: string) => {
    if (path.startsWith("secrets.")) secrets.value = { ...secrets.value, [path]: value };
    else values.value = { ...values.value, [path]: value };
  };
  const { key, provider } = integration;
  const isWrong = setup.fields.some(
    (field) => problemOf(field, { ...values.value, ...secrets.value }[field.path] ?? "") !== undefined,
  );

  async function save(expectedRevision: bigint): Promise<void> {
    const wanted = { ...integrationOf({ ...values.value, ...secrets.value }), environment, key, provider };
    const paths = [...new Set(changed.map(maskPathOf))];
    try {
      const answer = await integrations.updateIntegration({
        integration: wanted,
        updateMask: { paths },
        expectedRevision,
      });
      if (answer.integration !== undefined) take(answer.integration);
      onSaved();
    } catch (error) {
      const { integration: current } = await integrations.getIntegration({ environment, key });
      if (current === undefined || current.revision === base.value.revision) throw error;
      theirs.value = current;
    }
  }

  function take(current: Integration): void {
    base.value = current;
    values.value = valuesOf(current);
    secrets.value = {};
    theirs.value = undefined;
    round.value += 1;
  }

  return (
    <form
      class="form settings-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        if (isDirty && !isWrong) void acting.run(() => save(base.value.revision));
      }}
    >
      <AppFields
        key={round.value}
        setup={setup}
        values={{ ...values.value, ...secrets.value }}
        onChange={set}
        isDisabled={isReadOnly}
        fault={acting.fault}
      />
      <FurtherSettings
        setup={setup}
        values={values.value}
        onChange={set}
        isDisabled={isReadOnly}
        fault={acting.fault}
      />
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      {!isReadOnly && (
        <SaveBar changes={changed.length} isWrong={isWrong} isBusy={acting.isBusy} onUndo={() => take(base.value)} />
      )}
      {theirs.value !== undefined && (
        <ConflictDialog
          conflicts={conflictsOf(stored, valuesOf(theirs.value), values.value, setup)}
          changedAt={theirs.value.updatedAt}
          onTakeTheirs={() => {
            if (theirs.value !== undefined) take(theirs.value);
          }}
          onKeepMine={() => save(theirs.value?.revision ?? 0n)}
          onClose={() => (theirs.value = undefined)}
        />
      )}
    </form>
  );
}

/** The fields that follow from the provider's description. */
const AppFields = ({ setup, values, onChange, isDisabled, fault }: FurtherSettingsProps) => (
  <fieldset class="card form">
    <legend>App at the provider</legend>
    <Field
      label="Name for people"
      value={values["display_name"] ?? ""}
      onInput={(value) => onChange("display_name", value)}
      help="Your users see it on the connect page. Empty: the provider's name."
      isDisabled={isDisabled}
    />
    {setup.fields.map((field) => (
      <SetupField
        key={field.path}
        field={field}
        value={values[field.path] ?? ""}
        onInput={(value) => onChange(field.path, value)}
        problem={fault?.fields[`integration.${field.path}`]}
        isDisabled={isDisabled}
      />
    ))}
  </fieldset>
);

interface SaveBarProps {
  readonly changes: number;
  readonly isWrong: boolean;
  readonly isBusy: boolean;
  readonly onUndo: () => void;
}

function SaveBar({ changes, isWrong, isBusy, onUndo }: SaveBarProps) {
  const isDirty = changes > 0;
  return (
    <div class={isDirty ? "save-bar is-dirty" : "save-bar"}>
      <span class="quiet">{isDirty ? counted(changes, "unsaved change") : "Everything is saved"}</span>
      <Button onClick={onUndo} isDisabled={!isDirty}>
        Undo
      </Button>
      <Button type="submit" kind="primary" isBusy={isBusy} isDisabled={!isDirty || isWrong}>
        Save changes
      </Button>
    </div>
  );
}

/** Returns the fields that the other changed, with all three values. */
function conflictsOf(
  before: SetupValues,
  theirs: SetupValues,
  mine: SetupValues,
  { fields }: IntegrationSetup,
): readonly FieldConflict[] {
  const titleOf = (path: string) => fields.find((one) => one.path === path)?.title ?? furtherTitles[path] ?? path;
  const own = changedPaths(before, mine);
  return [...new Set([...changedPaths(before, theirs), ...own])].map((path) => ({
    path,
    title: titleOf(path),
    before: before[path] ?? "",
    theirs: theirs[path] ?? "",
    mine: own.includes(path) ? (mine[path] ?? "") : undefined,
  }));
}

/** The browser asks before it leaves the page with unsaved changes. */
function useWarnOnLeave(isDirty: boolean): void {
  useEffect(() => {
    if (!isDirty) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
}
