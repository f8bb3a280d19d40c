import type { Connection_State } from "../../../gen/latchkey/v1/connection_pb.ts";

/** The connections of an integration that have a state for a reason. */
export interface CensusGroup {
  readonly environment: string;
  readonly integration: string;
  readonly state: Connection_State;
  readonly reason: string;
  count: number;
}

/** Conditions on groups. Empty lists mean all. */
export interface GroupQuery {
  readonly environment: string;
  readonly integrations: readonly string[];
  readonly states: readonly Connection_State[];
  readonly reasons: readonly string[];
}

/** Numbers the groups. They are few: integrations times states and reasons that occur. */
export interface CensusGroups {
  numberOf(group: Omit<CensusGroup, "count">): number;
  /** Adds to the count of a group. */
  add(number: number, change: 1 | -1): void;
  matching(query: GroupQuery): ReadonlyMap<number, Readonly<CensusGroup>>;
}

export function createCensusGroups(): CensusGroups {
  const groups: CensusGroup[] = [];
  const numbers = new Map<string, number>();
  return {
    numberOf({ environment, integration, state, reason }) {
      const key = `${environment}\0${integration}\0${state}\0${reason}`;
      const known = numbers.get(key);
      if (known !== undefined) return known;
      groups.push({ environment, integration, state, reason, count: 0 });
      numbers.set(key, groups.length - 1);
      return groups.length - 1;
    },
    add(number, change) {
      const group = groups[number];
      if (group !== undefined) group.count += change;
    },
    matching({ environment, integrations, states, reasons }) {
      const found = new Map<number, CensusGroup>();
      for (const [number, group] of groups.entries()) {
        if (group.count === 0 || group.environment !== environment) continue;
        if (integrations.length > 0 && !integrations.includes(group.integration)) continue;
        if (states.length > 0 && !states.includes(group.state)) continue;
        if (reasons.length > 0 && !reasons.includes(group.reason)) continue;
        found.set(number, group);
      }
      return found;
    },
  };
}
