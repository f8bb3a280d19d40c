import { useSignal } from "@preact/signals";
import { type IntegrationField, IntegrationField_Kind } from "../../../gen/latchkey/v1/integration_pb.ts";
import { Button } from "../../components/button.tsx";
import { Field, Select } from "../../components/field.tsx";
import { ScopeEditor } from "./scope-editor.tsx";
import { problemOf } from "./setup-values.ts";

interface SetupFieldProps {
  readonly field: IntegrationField;
  readonly value: string;
  readonly onInput: (value: string) => void;
  /** What the server refused. */
  readonly problem?: string | undefined;
  readonly isDisabled?: boolean;
}

/** The input of a field, by its kind. A secret that is set is only replaced, never shown. */
export function SetupField(props: SetupFieldProps) {
  const { field, value, onInput, isDisabled = false } = props;
  const { path, title, description, example, kind, options, defaultValues, secret, required } = field;
  if (kind === IntegrationField_Kind.SCOPES) {
    return (
      <ScopeEditor
        label={title}
        help={description}
        scopes={value.split(/\s+/).filter((one) => one !== "")}
        defaults={defaultValues}
        options={options}
        onChange={(scopes) => onInput(scopes.join(" "))}
        isDisabled={isDisabled}
      />
    );
  }
  const problem = props.problem ?? problemOf(field, value);
  const shared = { label: title, value, onInput, help: description, problem, isDisabled };
  if (kind === IntegrationField_Kind.CHOICE) {
    return (
      <Select
        {...shared}
        options={[["", "Not known"], ...options.map((one) => [one.value, one.title || one.value] as const)]}
      />
    );
  }
  const isWritten = secret || path.startsWith("secrets.");
  if (isWritten && field.hasValue) return <SecretField {...props} />;
  const placeholder = example || defaultValues[0];
  return (
    <Field {...shared} isRequired={required} {...(placeholder !== undefined && { placeholder })} {...inputOf(field)} />
  );
}

/** "Client ID" within a sentence. */
export const lowerFirst = (title: string): string => title.charAt(0).toLowerCase() + title.slice(1);

const inputOf = ({ kind, secret, example }: IntegrationField) => {
  // A key in PEM is seen, so that a part that is missing is noticed.
  if (kind === IntegrationField_Kind.LINES) return { rows: 3, isCode: true, isMasked: secret && example === "" };
  return secret ? { type: "password" as const } : { isCode: true };
};

/** A stored secret: it is set, and can be replaced. */
function SecretField({ field, value, onInput, problem, isDisabled = false }: SetupFieldProps) {
  const isOpen = useSignal(value !== "");
  const { title, description } = field;
  if (isOpen.value) {
    return (
      <div>
        <Field
          label={`New ${lowerFirst(title)}`}
          value={value}
          onInput={onInput}
          problem={problem ?? problemOf(field, value)}
          help={description}
          isFocused
          {...inputOf(field)}
        />
        <Button
          kind="link"
          onClick={() => {
            onInput("");
            isOpen.value = false;
          }}
        >
          Keep the stored one
        </Button>
      </div>
    );
  }
  return (
    <div class="field">
      <span class="field-label">{title}</span>
      <div class="beside">
        <span class="stored-secret">Set. It is stored encrypted and not shown.</span>
        <Button isSmall isDisabled={isDisabled} onClick={() => (isOpen.value = true)} label={`Replace ${title}`}>
          Replace
        </Button>
      </div>
    </div>
  );
}
