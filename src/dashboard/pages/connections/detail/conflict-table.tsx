import type { JsonValue } from "@bufbuild/protobuf";
import type { JsonConflict } from "./json-merge.ts";

interface ConflictTableProps {
  readonly conflicts: readonly JsonConflict[];
  readonly takesTheirs: readonly string[];
  readonly onChange: (takesTheirs: readonly string[]) => void;
}

const shown = (value: JsonValue | undefined): string =>
  value === undefined ? "removed" : JSON.stringify(value, undefined, 2);

/** The keys that two people changed, with both values and a choice. */
export function ConflictTable({ conflicts, takesTheirs, onChange }: ConflictTableProps) {
  if (conflicts.length === 0) return null;
  const choose = (key: string, isTheirs: boolean) =>
    onChange(isTheirs ? [...takesTheirs, key] : takesTheirs.filter((one) => one !== key));
  return (
    <div class="notice warn" role="alert">
      <p>Someone else changed the same keys meanwhile. Choose which values to keep.</p>
      {conflicts.map(({ key, mine, theirs }) => (
        <fieldset key={key} class="conflict">
          <legend>
            <code>{key}</code>
          </legend>
          {([false, true] as const).map((isTheirs) => (
            <label key={String(isTheirs)} class="conflict-side">
              <span>
                <input
                  type="radio"
                  name={`conflict-${key}`}
                  checked={takesTheirs.includes(key) === isTheirs}
                  onChange={() => choose(key, isTheirs)}
                />{" "}
                {isTheirs ? "Theirs" : "Mine"}
              </span>
              <pre class={isTheirs ? "removed" : "added"}>{shown(isTheirs ? theirs : mine)}</pre>
            </label>
          ))}
        </fieldset>
      ))}
    </div>
  );
}
