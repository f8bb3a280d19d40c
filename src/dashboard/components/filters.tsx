import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { queryValue, setQuery } from "../state/router.ts";
import { Icon } from "./icon.tsx";

/** The row of filters above a list. Each filter is kept in the address. */
export const FilterBar = ({ children }: { readonly children: ComponentChildren }) => (
  <search class="filter-bar">{children}</search>
);

const settleMs = 200;

/** The list's search field; `/` leads to it. */
export function SearchFilter({ name = "q", label }: { readonly name?: string; readonly label: string }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label class="search-field">
      <Icon name="search" />
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        spellcheck={false}
        autocomplete="off"
        value={queryValue(name)}
        onInput={(event) => {
          const { value } = event.currentTarget;
          clearTimeout(timer.current);
          timer.current = setTimeout(() => setQuery({ [name]: value }), settleMs);
        }}
      />
    </label>
  );
}

interface SelectFilterProps {
  readonly name: string;
  readonly label: string;
  /** Without the first entry, "any". */
  readonly options: readonly (readonly [value: string, name: string])[];
}

export function SelectFilter({ name, label, options }: SelectFilterProps) {
  const value = queryValue(name);
  const known = options.some(([one]) => one === value) || value === "";
  return (
    <select
      class={value === "" ? "filter" : "filter is-set"}
      aria-label={label}
      value={value}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
    >
      <option value="">{label}: any</option>
      {!known && <option value={value}>{value}</option>}
      {options.map(([one, text]) => (
        <option key={one} value={one}>
          {label}: {text}
        </option>
      ))}
    </select>
  );
}

/** Filters as tabs with counts: the most used ones of a list. */
export function TabFilter({
  name,
  label,
  options,
}: {
  readonly name: string;
  readonly label: string;
  readonly options: readonly (readonly [value: string, text: string, count?: string])[];
}) {
  const value = queryValue(name);
  return (
    <fieldset class="tabs" aria-label={label}>
      {options.map(([one, text, count]) => (
        <button key={one} type="button" aria-pressed={one === value} onClick={() => setQuery({ [name]: one })}>
          {text}
          {count !== undefined && <span class="count">{count}</span>}
        </button>
      ))}
    </fieldset>
  );
}
