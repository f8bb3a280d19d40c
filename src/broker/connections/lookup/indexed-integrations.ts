import { type IntegrationName, integrationKey } from "../integration-name.ts";

/** Numbers integrations, so that the connections of one share its names. Freed numbers are reused. */
export interface IndexedIntegrations {
  /** Returns undefined if the integration has no indexed connection. */
  find(name: IntegrationName): number | undefined;
  /** Counts one more connection of the integration. Returns the integration's number. */
  add(name: IntegrationName): number;
  /** Counts one connection less. The last one frees the number. */
  remove(number: number): void;
  get(number: number): IntegrationName;
  readonly bytes: number;
}

interface CountedIntegration extends IntegrationName {
  connections: number;
}

/** Rough size of an object, two names and an entry of a Map. */
const entryBytes = 250;

export function createIndexedIntegrations(): IndexedIntegrations {
  const entries: (CountedIntegration | undefined)[] = [];
  const numbers = new Map<string, number>();

  function entryAt(number: number): CountedIntegration {
    const entry = entries[number];
    if (entry === undefined) throw new Error(`no integration of the index has the number ${number}`);
    return entry;
  }

  return {
    get: entryAt,
    find: (name) => numbers.get(integrationKey(name)),
    add({ environment, integration }) {
      const key = integrationKey({ environment, integration });
      const known = numbers.get(key);
      if (known !== undefined) {
        entryAt(known).connections += 1;
        return known;
      }
      const free = entries.indexOf(undefined);
      const number = free === -1 ? entries.length : free;
      entries[number] = { environment, integration, connections: 1 };
      numbers.set(key, number);
      return number;
    },
    remove(number) {
      const entry = entryAt(number);
      entry.connections -= 1;
      if (entry.connections > 0) return;
      numbers.delete(integrationKey(entry));
      entries[number] = undefined;
      if (numbers.size === 0) entries.length = 0;
    },
    get bytes() {
      return entries.length * entryBytes;
    },
  };
}
