import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Integration, IntegrationSetup } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice, Notice } from "../../components/states.tsx";
import { useAct } from "../../data/act.ts";
import { useDraft } from "../../data/draft.ts";
import { counted } from "../../data/format.ts";
import { integrations } from "../../state/clients.ts";
import { say } from "../../state/messages.ts";
import { queryValue } from "../../state/router.ts";
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

/** What a person has changed, and what it was changed from. Secrets are not among the values. */
interface SettingsDraft {
  readonly revision: string;
  readonly base: SetupValues;
  readonly values: SetupValues;
}

const draftOf = (integration: Integration): SettingsDraft => {
  const values = valuesOf(integration);
  return { revision: String(integration.revision), base: values, values };
};
const isUntouched = ({ base, values }: SettingsDraft): boolean => changedPaths(base, values).length === 0;

/** The settings of an integration. Only what the person changed is sent; a change by another is shown first. */
export function IntegrationSettings({ environment, integration, setup, onSaved }: IntegrationSettingsProps) {
  const { key, provider, declared } = integration;
  const draft = useDraft(`settings:${environment}:${key}`, draftOf(integration), isUntouched).value;
  const secrets = useSignal<SetupValues>({});
  const theirs = useSignal<Integration | undefined>(undefined);
  const round = useSignal(0);
  const acting = useAct({ isQuiet: true });
  const { base, values, revision } = draft.value;
  const written = Object.entries(secrets.value).filter(([, secret]) => secret !== "");
  const changed = changedPaths(base, values);
  const changes = changed.length + written.length;
  useWarnOnLeave(written.length > 0);
  useFieldOfAddress();
  const isReadOnly = declared || !may(Scope.INTEGRATIONS_WRITE);
  const all = { ...values, ...secrets.value };
  const isWrong = setup.fields.some((field) => problemOf(field, all[field.path] ?? "") !== undefined);
  const set = (path: string, value: string) => {
    if (path.startsWith("secrets.")) secrets.value = { ...secrets.value, [path]: value };
    else draft.value = { ...draft.value, values: { ...values, [path]: value } };
  };

  /** Writes the person's changes, and no other field, over what is stored at a revision. */
  async function save(before: SetupValues, expectedRevision: bigint): Promise<void> {
    const mine = Object.fromEntries(changed.map((path) => [path, values[path] ?? ""]));
    const wanted = integrationOf({ ...before, ...mine, ...Object.fromEntries(written) });
    const paths = [...new Set([...changed.map(maskPathOf), ...written.map(([path]) => maskPathOf(path))])];
    try {
      const answer = await integrations.updateIntegration({
        integration: { ...wanted, environment, key, provider },
        updateMask: { paths },
        expectedRevision,
      });
      if (answer.integration !== undefined) take(answer.integration);
      say(`Saved ${key}`);
      onSaved();
    } catch (error) {
      const { integration: current } = await integrations.getIntegration({ environment, key });
      if (current === undefined || current.revision === expectedRevision) throw error;
      theirs.value = current;
    }
  }

  function take(current: Integration): void {
    draft.value = draftOf(current);
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
        if (changes > 0 && !isWrong) void acting.run(() => save(base, BigInt(revision)));
      }}
    >
      {!declared && isReadOnly && (
        <Notice>Your key lacks the scope integrations:write: you see the settings only.</Notice>
      )}
      <AppFields
        key={round.value}
        setup={setup}
        values={all}
        onChange={set}
        isDisabled={isReadOnly}
        fault={acting.fault}
      />
      <FurtherSettings setup={setup} values={values} onChange={set} isDisabled={isReadOnly} fault={acting.fault} />
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      {!isReadOnly && (
        <SaveBar changes={changes} isWrong={isWrong} isBusy={acting.isBusy} onUndo={() => take(integration)} />
      )}
      {theirs.value !== undefined && (
        <ConflictDialog
          conflicts={conflictsOf(base, valuesOf(theirs.value), values, setup)}
          changedAt={theirs.value.updatedAt}
          onTakeTheirs={() => {
            if (theirs.value !== undefined) take(theirs.value);
          }}
          onKeepMine={async () => {
            if (theirs.value !== undefined) await save(valuesOf(theirs.value), theirs.value.revision);
          }}
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
      <div key={field.path} data-field={field.path}>
        <SetupField
          field={field}
          value={values[field.path] ?? ""}
          onInput={(value) => onChange(field.path, value)}
          problem={fault?.fields[`integration.${field.path}`]}
          isDisabled={isDisabled}
        />
      </div>
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

/** Leads to the field that the address names, such as from a warning. */
function useFieldOfAddress(): void {
  const name = queryValue("field");
  useEffect(() => {
    const box = name === "" ? null : document.querySelector(`[data-field="${CSS.escape(name)}"]`);
    const input = box?.querySelector<HTMLElement>("input, select, textarea, button");
    input?.focus({ preventScroll: true });
    box?.scrollIntoView({ block: "center" });
  }, [name]);
}

/** The browser asks before it leaves the page with a secret that is not saved. */
function useWarnOnLeave(isDirty: boolean): void {
  useEffect(() => {
    if (!isDirty) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isDirty]);
}
