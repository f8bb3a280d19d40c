import type { ConnectionCount } from "../../../gen/latchkey/v1/connection_pb.ts";
import { FilterBar, SearchFilter, SelectFilter, TabFilter } from "../../components/filters.tsx";
import { countText, words } from "../../data/format.ts";
import { address, queryValue, setQuery } from "../../state/router.ts";
import { reasonWords, stateWords } from "./state-words.tsx";

/** The filters of the address, as a request has them. */
export function filterOfAddress() {
  const { query } = address.value;
  const text = queryValue("q").trim();
  const isPrefix = queryValue("match") === "prefix";
  const states = query.getAll("state");
  return {
    integrations: query.getAll("integration"),
    states: stateWords.filter(({ key }) => states.includes(key)).map(({ state }) => state),
    reasons: query.getAll("reason"),
    tags: Object.fromEntries(query.getAll("tag").flatMap(tagOf)),
    search: isPrefix ? "" : text,
    idPrefix: isPrefix ? text : "",
  };
}

export type AddressFilter = ReturnType<typeof filterOfAddress>;

/** Reads `key=value`. */
export function tagOf(text: string): readonly (readonly [key: string, value: string])[] {
  const at = text.indexOf("=");
  return at < 1 ? [] : [[text.slice(0, at).trim().toLowerCase(), text.slice(at + 1).trim()]];
}

export const isFiltered = (): boolean =>
  ["q", "state", "reason", "integration", "tag"].some((name) => queryValue(name) !== "");

export const clearFilters = () =>
  setQuery({ q: "", match: "", state: "", reason: "", integration: "", tag: "" }, { push: true });

interface ConnectionFiltersProps {
  readonly counts: readonly ConnectionCount[];
  readonly integrations: readonly string[];
}

/** Counts by state as tabs, reasons as chips, and the other filters. */
export function ConnectionFilters({ counts, integrations }: ConnectionFiltersProps) {
  const integration = queryValue("integration");
  const within = counts.filter((one) => integration === "" || one.integration === integration);
  const sum = (some: readonly ConnectionCount[]) => countText(some.reduce((all, { count }) => all + count, 0));
  return (
    <>
      <TabFilter
        name="state"
        label="State"
        options={[
          ["", "All", sum(within)],
          ...stateWords.map(
            ({ key, name, state }) => [key, name, sum(within.filter((one) => one.state === state))] as const,
          ),
        ]}
      />
      <FilterBar>
        <SearchFilter label="ID, or the end user's ID, email or name" />
        {queryValue("q") !== "" && (
          <select
            class={queryValue("match") === "" ? "filter" : "filter is-set"}
            aria-label="What to search"
            value={queryValue("match")}
            onChange={(event) => setQuery({ match: event.currentTarget.value })}
          >
            <option value="">Contains it anywhere</option>
            <option value="prefix">ID begins with it</option>
          </select>
        )}
        <SelectFilter name="integration" label="Integration" options={integrations.map((key) => [key, key] as const)} />
        <TagFilter />
      </FilterBar>
      <ReasonChips counts={within} />
    </>
  );
}

/** A tag as `key=value`. */
function TagFilter() {
  const value = queryValue("tag");
  return (
    <input
      class={value === "" ? "filter tag-filter" : "filter tag-filter is-set"}
      aria-label="Tag, as key=value"
      placeholder="Tag: key=value"
      spellcheck={false}
      autocomplete="off"
      defaultValue={value}
      key={value}
      onChange={(event) =>
        setQuery({ tag: tagOf(event.currentTarget.value).length > 0 ? event.currentTarget.value : "" })
      }
    />
  );
}

/** The reasons that occur, most frequent first; a click filters. */
function ReasonChips({ counts }: { readonly counts: readonly ConnectionCount[] }) {
  const chosen = queryValue("reason");
  const state = queryValue("state");
  const sums = new Map<string, number>();
  for (const { stateReason, count, state: own } of counts) {
    const isShown = state === "" || stateWords.some(({ key, state: known }) => key === state && known === own);
    if (stateReason !== "" && isShown) sums.set(stateReason, (sums.get(stateReason) ?? 0) + count);
  }
  if (chosen !== "" && !sums.has(chosen)) sums.set(chosen, 0);
  if (sums.size === 0) return null;
  return (
    <fieldset class="reason-chips" aria-label="Reason">
      {[...sums]
        .sort(([, one], [, other]) => other - one)
        .map(([reason, count]) => (
          <button
            key={reason}
            type="button"
            aria-pressed={reason === chosen}
            title={reasonWords(reason).what}
            onClick={() => setQuery({ reason: reason === chosen ? "" : reason })}
          >
            {words(reason)} <span class="count">{countText(count)}</span>
          </button>
        ))}
    </fieldset>
  );
}
