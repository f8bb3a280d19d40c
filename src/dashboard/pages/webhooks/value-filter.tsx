import { queryValue, setQuery } from "../../state/router.ts";

/** A filter that a link has set: shown with its value, and removed with a click. */
export function ValueFilter({ name, label }: { readonly name: string; readonly label: string }) {
  const value = queryValue(name);
  if (value === "") return null;
  return (
    <button type="button" class="value-filter" title="Remove this filter" onClick={() => setQuery({ [name]: "" })}>
      {label}: <span>{value}</span> ×
    </button>
  );
}
