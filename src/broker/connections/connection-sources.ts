import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ConnectionCensus } from "./census/census.ts";
import { type ConnectionCollections, isWell } from "./connection-collections.ts";

/** Filters of a connection list. A connection must match all of them. */
export interface ConnectionQuery {
  readonly environment: string;
  readonly integrations: readonly string[];
  readonly id: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly states: readonly Connection_State[];
  readonly search: string;
  readonly reasons?: readonly string[];
  readonly idPrefix?: string;
}

/** Reads connections with their positions, in one order, from a given position. */
export type ConnectionSource = (
  request: Pick<PageRequest, "after" | "limit">,
) => Promise<readonly PositionedRecord<Connection>[]>;

interface ListingPart {
  /** Sorts as the parts do, and holds no NUL. */
  readonly name: string;
  readonly read: ConnectionSource;
}

type UnhealthyQuery = Pick<ConnectionQuery, "environment" | "states" | "integrations">;

/** Returns the source that reads the fewest connections for a query. */
export type ChooseSource = (query: ConnectionQuery) => Promise<ConnectionSource>;

export function createConnectionSources({
  connections,
  integrations,
}: Pick<SetupCollections, "integrations"> & Pick<ConnectionCollections, "connections">): ChooseSource {
  /** Chooses the narrowest index for the query. */
  async function sourceOf({
    environment,
    id,
    tags,
    states,
    reasons = [],
    idPrefix = "",
    integrations: wanted,
  }: ConnectionQuery): Promise<ConnectionSource> {
    if (id !== "") return byId({ environment, id, integrations: wanted });
    const [tag] = Object.entries(tags);
    if (tag !== undefined) return (request) => connections.pageBy("tag", { under: [environment, ...tag], ...request });
    if (idPrefix !== "") {
      return inIntegrations(environment, wanted.length > 0 ? wanted : await allIntegrations(environment), idPrefix);
    }
    // A healthy connection has no reason.
    const unwell = reasons.length > 0 && !reasons.includes("") && states.length === 0 ? unwellStates : states;
    if (unwell.length > 0 && !unwell.some(isWell)) {
      return inStates({ environment, states: unwell, integrations: wanted });
    }
    if (wanted.length > 0) return inIntegrations(environment, wanted);
    return (request) => connections.page({ under: [environment], ...request });
  }

  async function allIntegrations(environment: string): Promise<readonly string[]> {
    const all = await integrations.page({ under: [environment], limit: Number.MAX_SAFE_INTEGER });
    return all.map(({ value }) => value.key);
  }

  /** Looks up an ID in each integration: it names at most one connection there, and integrations are few. */
  async function byId({
    environment,
    id,
    integrations: wanted,
  }: Pick<ConnectionQuery, "environment" | "id" | "integrations">): Promise<ConnectionSource> {
    const keys = wanted.length > 0 ? wanted : await allIntegrations(environment);
    return async ({ after = "", limit }) => {
      const found = await connections.getMany(keys.map((key) => [environment, key, id]));
      return found
        .flatMap((stored, i) => (stored === undefined ? [] : [{ ...stored, position: keys[i] ?? "" }]))
        .filter(({ position }) => position > after)
        .slice(0, limit);
    };
  }

  /** Reads one integration after the other. */
  const inIntegrations = (environment: string, keys: readonly string[], prefix = ""): ConnectionSource =>
    oneAfterAnother(
      keys.map((key) => ({
        name: key,
        read: (request) => connections.page({ under: [environment, key], prefix, ...request }),
      })),
    );

  /** Reads an index, one state after the other: few connections are unhealthy. */
  function inStates({ environment, states, integrations: wanted }: UnhealthyQuery): ConnectionSource {
    const inState = (state: Connection_State) => (request: Pick<PageRequest, "after" | "limit">) =>
      connections.pageBy("state", { under: [environment, String(state)], ...request });
    if (wanted.length === 0) {
      return oneAfterAnother(states.map((state) => ({ name: String(state), read: inState(state) })));
    }
    return oneAfterAnother(
      states.flatMap((state) =>
        wanted.map((key) => ({
          name: `${state}/${key}`,
          // Within a state, keys sort by integration: read from the start of this one to its end.
          async read({ after = `${environment}\0${key}`, limit }) {
            const found = await inState(state)({ after, limit });
            const end = found.findIndex(({ value }) => value.ref?.integration !== key);
            return end === -1 ? found : found.slice(0, end);
          },
        })),
      ),
    );
  }

  return sourceOf;
}

const unwellStates = [
  Connection_State.EXPIRING,
  Connection_State.REFRESH_FAILING,
  Connection_State.REAUTHORIZATION_REQUIRED,
] as const;

interface NewestFirst {
  readonly connections: ConnectionCollections["connections"];
  readonly census: ConnectionCensus;
  readonly query: ConnectionQuery;
}

/** Begins the positions of lists with the newest first: other positions never begin with NUL. */
export const newestMark = "\0";

/** Reads connections in the order of the census. */
export function newestFirst({ connections, census, query }: NewestFirst): ConnectionSource {
  const { environment, integrations, states, reasons = [] } = query;
  return async ({ after, limit }) => {
    let before = after === undefined ? Number.POSITIVE_INFINITY : Number(after.slice(newestMark.length));
    const found: PositionedRecord<Connection>[] = [];
    // A connection may be deleted between its number and its record: then the next one is read.
    for (;;) {
      const wanted = limit - found.length;
      const rows = census.newest({ environment, integrations, states, reasons }, { before, limit: wanted });
      const records = await connections.getMany(rows.map(({ integration, id }) => [environment, integration, id]));
      for (const [i, stored] of records.entries()) {
        if (stored !== undefined) found.push({ ...stored, position: `${newestMark}${rows[i]?.number ?? 0}` });
      }
      before = rows.at(-1)?.number ?? 0;
      if (rows.length < wanted || found.length === limit) return found;
    }
  };
}

/** Combines several sources; a position begins with the name of its part. */
function oneAfterAnother(parts: readonly ListingPart[]): ConnectionSource {
  return async ({ after, limit }) => {
    const at = after?.indexOf("\0") ?? -1;
    const start = after?.slice(0, at) ?? "";
    const found: PositionedRecord<Connection>[] = [];
    for (const { name, read } of parts) {
      if (name < start || found.length >= limit) continue;
      const from = name === start ? after?.slice(at + 1) : undefined;
      const part = await read({ after: from, limit: limit - found.length });
      found.push(...part.map((record) => ({ ...record, position: `${name}\0${record.position}` })));
    }
    return found;
  };
}
