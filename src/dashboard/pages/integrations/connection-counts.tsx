import { useEffect } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Connection_State, type ConnectionCount } from "../../../gen/latchkey/v1/connection_pb.ts";
import { countText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { connections } from "../../state/clients.ts";
import { linkTo } from "../../state/router.ts";
import { may } from "../../state/session.ts";

/** Counts of connections by integration; undefined until they are known. */
export interface KnownCounts {
  readonly byIntegration: ReadonlyMap<string, readonly ConnectionCount[]> | undefined;
  /** False while Latchkey still reads the store. */
  readonly isComplete: boolean;
  reload(): void;
}

const againMs = 1_000;

/** Counts the connections of these integrations; of all if there are none in the list. */
export function useConnectionCounts(environment: string, integrations: readonly string[]): KnownCounts {
  const { value, reload } = useLoad(
    async (signal) =>
      may(Scope.CONNECTIONS_READ)
        ? connections.countConnections({ environment, integrations: [...integrations] }, { signal })
        : undefined,
    [environment, integrations.join("\n")],
  );
  useEffect(() => {
    if (value === undefined || value.isComplete) return;
    const timer = setTimeout(reload, againMs);
    return () => clearTimeout(timer);
  }, [value]);
  return {
    byIntegration: value === undefined ? undefined : Map.groupBy(value.counts, ({ integration }) => integration),
    isComplete: value?.isComplete === true,
    reload,
  };
}

export const countOf = (counts: readonly ConnectionCount[] = []): number =>
  counts.reduce((sum, { count }) => sum + count, 0);

const unwell: readonly (readonly [state: Connection_State, filter: string, words: string])[] = [
  [Connection_State.REAUTHORIZATION_REQUIRED, "reauthorization_required", "need reconnect"],
  [Connection_State.REFRESH_FAILING, "refresh_failing", "refresh failing"],
  [Connection_State.EXPIRING, "expiring", "expiring"],
];

interface ConnectionCountsProps {
  readonly integration: string;
  readonly counts: KnownCounts;
}

/** How many connections an integration has, and how many are unwell, each with its list. */
export function ConnectionCounts({ integration, counts }: ConnectionCountsProps) {
  const { byIntegration, isComplete } = counts;
  if (!may(Scope.CONNECTIONS_READ)) return <span class="quiet">–</span>;
  if (byIntegration === undefined) return <span class="quiet">…</span>;
  const found = byIntegration.get(integration) ?? [];
  const sum = countOf(found);
  const of = (state: Connection_State) => countOf(found.filter((one) => one.state === state));
  return (
    <span class="counts" title={isComplete ? undefined : "Still counting"}>
      <a href={linkTo("/connections", { integration })}>
        {countText(sum)}
        {!isComplete && "+"}
      </a>
      {unwell.map(([state, filter, text]) => {
        const count = of(state);
        return count === 0 ? null : (
          <a key={filter} class="count-bad" href={linkTo("/connections", { integration, state: filter })}>
            {countText(count)} {text}
          </a>
        );
      })}
    </span>
  );
}
