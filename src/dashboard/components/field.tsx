import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface FieldBase {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly help?: ComponentChildren;
  /** What is wrong with the value. */
  readonly problem?: string | undefined;
  readonly isDisabled?: boolean;
  /** Takes the focus when it appears. */
  readonly isFocused?: boolean;
}

interface FieldProps extends FieldBase {
  readonly type?: "text" | "password" | "url" | "email" | "number" | "search" | "datetime-local";
  readonly placeholder?: string;
  readonly isRequired?: boolean;
  readonly isCode?: boolean;
  /** Lines of secrets, shown as dots. */
  readonly isMasked?: boolean;
  /** More than one line. */
  readonly rows?: number;
}

/** A labelled input; its help and its problem are read out with it. */
export function Field(props: FieldProps) {
  const { label, value, onInput, help, problem, type = "text", rows } = props;
  const id = useId();
  const input = useRef<HTMLInputElement & HTMLTextAreaElement>(null);
  useEffect(() => {
    if (props.isFocused) input.current?.focus();
  }, []);
  const shared = {
    id,
    ref: input,
    value,
    disabled: props.isDisabled === true,
    required: props.isRequired === true,
    placeholder: props.placeholder,
    class: props.isMasked ? "code masked" : props.isCode ? "code" : undefined,
    spellcheck: false,
    autocomplete: "off",
    "aria-invalid": problem !== undefined,
    "aria-describedby": `${id}-help`,
    onInput: (event: Event) => onInput((event.target as HTMLInputElement).value),
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {rows === undefined ? <input {...shared} type={type as "text"} /> : <textarea {...shared} rows={rows} />}
      <div id={`${id}-help`} class={problem === undefined ? "field-help" : "field-help bad"}>
        {problem ?? help}
      </div>
    </div>
  );
}

interface SelectProps extends FieldBase {
  readonly options: readonly (readonly [value: string, name: string])[];
}

export function Select({ label, value, onInput, help, problem, options, isDisabled = false }: SelectProps) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        disabled={isDisabled}
        aria-describedby={`${id}-help`}
        onChange={(event) => onInput(event.currentTarget.value)}
      >
        {options.map(([key, name]) => (
          <option key={key} value={key}>
            {name}
          </option>
        ))}
      </select>
      <div id={`${id}-help`} class={problem === undefined ? "field-help" : "field-help bad"}>
        {problem ?? help}
      </div>
    </div>
  );
}

interface CheckboxProps {
  readonly label: ComponentChildren;
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly isDisabled?: boolean;
}

export const Checkbox = ({ label, isChecked, onChange, isDisabled = false }: CheckboxProps) => (
  <label class="checkbox">
    <input
      type="checkbox"
      checked={isChecked}
      disabled={isDisabled}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
    <span>{label}</span>
  </label>
);
