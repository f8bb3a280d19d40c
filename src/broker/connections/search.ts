import { Fault } from "../../base/fault.ts";
import { lowerTags } from "../../core/connection-rules.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { ConnectionCensus } from "./census/census.ts";
import type { ConnectionCollections } from "./connection-collections.ts";
import { type ConnectionQuery, createConnectionSources, newestFirst, newestMark } from "./connection-sources.ts";

export interface ListingPage extends PageOptions {
  readonly offset?: number;
  /** Maximum size of a page, which holds at least one connection. */
  readonly maxBytes?: number;
  /** Preferred; the result says whether the list has this order. */
  readonly isNewestFirst?: boolean;
}

export interface ListedConnections extends PageOf<Connection> {
  readonly isNewestFirst: boolean;
}

export interface ConnectionListing {
  list(query: ConnectionQuery, page: ListingPage): Promise<ListedConnections>;
  /** Counts what a query matches from memory. Undefined if that is not known without reading connections. */
  total(query: ConnectionQuery): number | undefined;
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
/** A list that begins has another order if the census is not complete by then. */
const firstPageWaitMs = 250;
/** A list that continues cannot change its order. */
const nextPageWaitMs = 20_000;

export function createConnectionListing(
  collections: SetupCollections & ConnectionCollections,
  census: ConnectionCensus,
): ConnectionListing {
  const sourceOf = createConnectionSources(collections);

  async function isNewestPossible(query: ConnectionQuery, position: string | undefined): Promise<boolean> {
    const { id, idPrefix = "", tags } = query;
    if (id !== "" || idPrefix !== "" || Object.keys(tags).length > 0) return false;
    if (position !== undefined && !position.startsWith(newestMark)) return false;
    if (position === undefined) return census.soonReady(firstPageWaitMs);
    if (await census.ready(nextPageWaitMs)) return true;
    throw new Fault("overloaded", "the connections are still being read from the store; try again in a moment");
  }

  return {
    async list(request, { size, token, offset = 0, maxBytes = Number.POSITIVE_INFINITY, isNewestFirst: prefers }) {
      if (offset > maxOffset) {
        const message = `page numbers reach only ${maxOffset} connections; continue with a cursor`;
        throw new Fault("invalid_query_params", message, { mistakes: [{ path: ["page"], message }] });
      }
      const query = inOneOrder(request);
      const tokens = pageTokens(["connections", query, ...(prefers ? ["newest"] : [])]);
      let position = tokens.read(token);
      if (
        namesNothing(
          query.environment,
          query.id,
          query.idPrefix ?? "",
          ...query.integrations,
          ...Object.entries(query.tags).flat(),
        )
      ) {
        return { items: [], next: "", isNewestFirst: false };
      }
      const isNewestFirst = prefers === true && (await isNewestPossible(query, position));
      const read = isNewestFirst
        ? newestFirst({ connections: collections.connections, census, query })
        : await sourceOf(query);
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
            if (isFull) return { items, next: tokens.write(position ?? ""), isNewestFirst };
            if (skip > 0) skip -= 1;
            else items.push(value);
          }
          position = at;
        }
        unseen -= chunk.length;
        if (chunk.length < limit) return { items, next: "", isNewestFirst };
      }
      return { items, next: position === undefined ? "" : tokens.write(position), isNewestFirst };
    },
    total(query) {
      const { environment, integrations, id, idPrefix = "", tags, states, reasons = [], search } = query;
      if (!census.isComplete || id !== "" || idPrefix !== "" || search !== "") return undefined;
      if (Object.keys(tags).length > 0) return undefined;
      const groups = census.groups({ environment, integrations, states, reasons });
      return groups.reduce((sum, { count }) => sum + count, 0);
    },
  };
}

/** Normalizes a query: equal queries get the same token, and the same order of results. */
function inOneOrder({ integrations, tags, states, reasons, idPrefix, ...rest }: ConnectionQuery): ConnectionQuery {
  return {
    ...rest,
    ...(reasons === undefined || reasons.length === 0 ? {} : { reasons: [...new Set(reasons)].sort() }),
    ...(idPrefix === undefined || idPrefix === "" ? {} : { idPrefix }),
    integrations: [...new Set(integrations)].sort(),
    tags: Object.fromEntries(Object.entries(lowerTags(tags)).sort()),
    states: [...new Set(states)].sort(),
  };
}

function filterOf(query: ConnectionQuery): (connection: Connection) => boolean {
  const { tags, states, reasons = [], search, integrations, id, idPrefix = "" } = query;
  const wantedTags = Object.entries(tags);
  const wantedText = search.toLowerCase();
  return ({ ref, tags: own, state, stateReason, endUser }) => {
    if (integrations.length > 0 && !integrations.includes(ref?.integration ?? "")) return false;
    if (id !== "" && ref?.id !== id) return false;
    if (idPrefix !== "" && !ref?.id.startsWith(idPrefix)) return false;
    if (states.length > 0 && !states.includes(state)) return false;
    if (reasons.length > 0 && !reasons.includes(stateReason)) return false;
    if (!wantedTags.every(([key, value]) => own[key] === value)) return false;
    if (wantedText === "") return true;
    const texts = [ref?.id, endUser?.id, endUser?.email, endUser?.displayName, ...searchedTags.map((key) => own[key])];
    return texts.some((text) => text?.toLowerCase().includes(wantedText));
  };
}

/** Tags that hold an end user's names since `end_user` was deprecated. */
const searchedTags = ["end_user_id", "end_user_email", "end_user_display_name"];
