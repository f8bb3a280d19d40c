import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { FieldOption } from "../../../gen/latchkey/v1/integration_pb.ts";
import { ScopeNote_Sensitivity } from "../../../gen/latchkey/v1/provider_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Checkbox } from "../../components/field.tsx";

interface ScopeEditorProps {
  readonly label: string;
  readonly help: string;
  readonly scopes: readonly string[];
  /** Requested if no scope is chosen. */
  readonly defaults: readonly string[];
  /** Scopes that the provider's description knows. */
  readonly options: readonly FieldOption[];
  readonly onChange: (scopes: readonly string[]) => void;
  readonly isDisabled?: boolean;
}

/** The scopes of an integration as chips; known ones can be chosen by their meaning. */
export function ScopeEditor(props: ScopeEditorProps) {
  const { label, help, scopes, defaults, options, onChange, isDisabled = false } = props;
  const text = useSignal("");
  const isOpen = useSignal(false);
  const id = useId();
  const add = (written: string) => {
    const named = written.split(/[\s,]+/).filter((one) => one !== "");
    if (named.length > 0) onChange([...new Set([...scopes, ...named])]);
    text.value = "";
  };
  const toggle = (scope: string, isWanted: boolean) =>
    onChange(isWanted ? [...scopes, scope] : scopes.filter((one) => one !== scope));
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {scopes.length > 0 && (
        <ul class="chips" aria-label="Chosen scopes">
          {scopes.map((scope) => (
            <ScopeChip
              key={scope}
              scope={scope}
              option={options.find(({ value }) => value === scope)}
              onRemove={isDisabled ? undefined : () => toggle(scope, false)}
            />
          ))}
        </ul>
      )}
      {!isDisabled && (
        <div class="beside">
          <input
            id={id}
            class="code"
            value={text.value}
            placeholder="Add a scope"
            spellcheck={false}
            autocomplete="off"
            aria-describedby={`${id}-help`}
            onInput={(event) => {
              const { value } = event.currentTarget;
              if (/[\s,]/.test(value.trim()) || /[\s,]$/.test(value)) add(value);
              else text.value = value;
            }}
            onBlur={() => add(text.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter") return;
              event.preventDefault();
              add(text.value);
            }}
          />
          {options.length > 0 && (
            <Button onClick={() => (isOpen.value = !isOpen.value)}>
              {isOpen.value ? "Hide known scopes" : "Choose known scopes"}
            </Button>
          )}
        </div>
      )}
      {isOpen.value && (
        <ul class="scope-list">
          {options.map(({ value, description, sensitivity }) => (
            <li key={value}>
              <Checkbox
                isChecked={scopes.includes(value)}
                onChange={(isWanted) => toggle(value, isWanted)}
                label={
                  <>
                    <code>{value}</code> <SensitivityBadge sensitivity={sensitivity} />
                    <span class="scope-meaning">{description}</span>
                  </>
                }
              />
            </li>
          ))}
        </ul>
      )}
      <div id={`${id}-help`} class="field-help">
        {help}
        {scopes.length === 0 && defaults.length > 0 && (
          <>
            {" "}
            None chosen: Latchkey requests <code>{defaults.join(" ")}</code>.
          </>
        )}
      </div>
    </div>
  );
}

interface ScopeChipProps {
  readonly scope: string;
  readonly option: FieldOption | undefined;
  readonly onRemove: (() => void) | undefined;
}

const ScopeChip = ({ scope, option, onRemove }: ScopeChipProps) => (
  <li class={`chip-item ${sensitivityTone(option?.sensitivity) ?? ""}`} title={option?.description}>
    <code>{scope}</code>
    {onRemove !== undefined && (
      <button type="button" aria-label={`Remove ${scope}`} onClick={onRemove}>
        ×
      </button>
    )}
  </li>
);

function sensitivityTone(sensitivity: ScopeNote_Sensitivity | undefined): "bad" | "warn" | undefined {
  if (sensitivity === ScopeNote_Sensitivity.RESTRICTED) return "bad";
  return sensitivity === ScopeNote_Sensitivity.SENSITIVE ? "warn" : undefined;
}

export const SensitivityBadge = ({ sensitivity }: { readonly sensitivity: ScopeNote_Sensitivity }) => {
  const tone = sensitivityTone(sensitivity);
  if (tone === undefined) return null;
  return (
    <Badge
      tone={tone}
      title={
        tone === "bad"
          ? "The provider verifies and assesses the app before it goes live"
          : "The provider verifies the app before it goes live"
      }
    >
      {tone === "bad" ? "Restricted" : "Sensitive"}
    </Badge>
  );
};
