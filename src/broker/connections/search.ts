import { Fault } from "../../base/fault.ts";
import { lowerTags } from "../../core/connection-rules.ts";
import type { Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";
import type { PageRequest, PositionedRecord } from "../../store/records.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import { type ConnectionCollections, isWell } from "./connection-collections.ts";

/** Filters of a connection list. A connection must match all of them. */
export interface ConnectionQuery {
  readonly environment: string;
  readonly integrations: readonly string[];
  readonly id: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly states: readonly Connection_State[];
  readonly search: string;
}

export interface ListingPage extends PageOptions {
  readonly offset?: number;
  /** Maximum size of a page, which holds at least one connection. */
  readonly maxBytes?: number;
}

export interface ConnectionListing {
  list(query: ConnectionQuery, page: ListingPage): Promise<PageOf<Connection>>;
}

/**
 * Limits the connections examined by one call. If no index fits the query, the call returns a short page and a token,
 * and does not delay other requests.
 */
export const lookedAtPerCall = 2_000;
/**
 * The published SDK has only page numbers, and such lists are read from their start. Limits how far the numbers reach.
 */
const maxOffset = 100_000;
const maxChunk = 500;

/** Reads connections with their positions, in one order, from a given position. */
type ConnectionSource = (
  request: Pick<PageRequest, "after" | "limit">,
) => Promise<readonly PositionedRecord<Connection>[]>;

interface ListingPart {
  /** Sorts as the parts do, and holds no NUL. */
  readonly name: string;
  readonly read: ConnectionSource;
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
      const some = await read({ after: from, limit: limit - found.length });
      found.push(...some.map((one) => ({ ...one, position: `${name}\0${one.position}` })));
    }
    return found;
  };
}

type UnhealthyQuery = Pick<ConnectionQuery, "environment" | "states" | "integrations">;

export function createConnectionListing({
  connections,
  integrations,
}: SetupCollections & ConnectionCollections): ConnectionListing {
  /** Chooses the narrowest index for the query. */
  async function sourceOf({
    environment,
    id,
    tags,
    states,
    integrations: wanted,
  }: ConnectionQuery): Promise<ConnectionSource> {
    if (id !== "") return byId({ environment, id, integrations: wanted });
    const [tag] = Object.entries(tags);
    if (tag !== undefined) return (request) => connections.pageBy("tag", { under: [environment, ...tag], ...request });
    if (states.length > 0 && !states.some(isWell)) return inStates({ environment, states, integrations: wanted });
    if (wanted.length > 0) return inIntegrations(environment, wanted);
    return (request) => connections.page({ under: [environment], ...request });
  }

  /** Looks up an ID in each integration: it names at most one connection there, and integrations are few. */
  async function byId(asked: {
    readonly environment: string;
    readonly id: string;
    readonly integrations: readonly string[];
  }): Promise<ConnectionSource> {
    const { environment, id, integrations: wanted } = asked;
    const all = await integrations.page({ under: [environment], limit: Number.MAX_SAFE_INTEGER });
    const keys = wanted.length > 0 ? wanted : all.map(({ value }) => value.key);
    return async ({ after = "", limit }) => {
      const found = await connections.getMany(keys.map((key) => [environment, key, id]));
      return found
        .flatMap((stored, i) => (stored === undefined ? [] : [{ ...stored, position: keys[i] ?? "" }]))
        .filter(({ position }) => position > after)
        .slice(0, limit);
    };
  }

  /** Reads one integration after the other. */
  const inIntegrations = (environment: string, keys: readonly string[]): ConnectionSource =>
    oneAfterAnother(
      keys.map((key) => ({
        name: key,
        read: (request) => connections.page({ under: [environment, key], ...request }),
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

  return {
    async list(asked, { size, token, offset = 0, maxBytes = Number.POSITIVE_INFINITY }) {
      if (offset > maxOffset) {
        const message = `pages reach ${maxOffset} connections deep; go on by cursor`;
        throw new Fault("invalid_query_params", message, { mistakes: [{ path: ["page"], message }] });
      }
      const query = inOneOrder(asked);
      const tokens = pageTokens(["connections", query]);
      let position = tokens.read(token);
      if (namesNothing(query.environment, query.id, ...query.integrations, ...Object.entries(query.tags).flat())) {
        return { items: [], next: "" };
      }
      const read = await sourceOf(query);
      const accept = filterOf(query);
      const items: Connection[] = [];
      let skip = offset;
      let room = maxBytes;
      // The extra connection shows whether there is another page.
      let unseen = lookedAtPerCall + offset + 1;
      while (unseen > 0) {
        const limit = Math.min(maxChunk, unseen, size + skip - items.length + 1);
        const chunk = await read({ after: position, limit });
        for (const { value, position: at, bytes } of chunk) {
          if (accept(value)) {
            if (skip === 0) room -= bytes;
            const isFull = items.length === size || (room < 0 && items.length > 0);
            if (isFull) return { items, next: tokens.write(position ?? "") };
            if (skip > 0) skip -= 1;
            else items.push(value);
          }
          position = at;
        }
        unseen -= chunk.length;
        if (chunk.length < limit) return { items, next: "" };
      }
      return { items, next: position === undefined ? "" : tokens.write(position) };
    },
  };
}

/** Normalizes a query: equal queries get the same token, and the same order of results. */
function inOneOrder({ integrations, tags, states, ...rest }: ConnectionQuery): ConnectionQuery {
  return {
    ...rest,
    integrations: [...new Set(integrations)].sort(),
    tags: Object.fromEntries(Object.entries(lowerTags(tags)).sort()),
    states: [...new Set(states)].sort(),
  };
}

function filterOf({ tags, states, search, integrations, id }: ConnectionQuery): (connection: Connection) => boolean {
  const wantedTags = Object.entries(tags);
  const wantedText = search.toLowerCase();
  return ({ ref, tags: own, state, endUser }) => {
    if (integrations.length > 0 && !integrations.includes(ref?.integration ?? "")) return false;
    if (id !== "" && ref?.id !== id) return false;
    if (states.length > 0 && !states.includes(state)) return false;
    if (!wantedTags.every(([key, value]) => own[key] === value)) return false;
    if (wantedText === "") return true;
    const texts = [ref?.id, endUser?.id, endUser?.email, endUser?.displayName, ...searchedTags.map((key) => own[key])];
    return texts.some((text) => text?.toLowerCase().includes(wantedText));
  };
}

/** Tags that hold an end user's names since `end_user` was deprecated. */
const searchedTags = ["end_user_id", "end_user_email", "end_user_display_name"];
