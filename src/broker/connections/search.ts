import { Fault } from "../../base/fault.ts";
import { lowerTags } from "../../core/connection-rules.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { ConnectionCollections } from "./connection-collections.ts";
import { type ConnectionQuery, createConnectionSources } from "./connection-sources.ts";

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

export function createConnectionListing(collections: SetupCollections & ConnectionCollections): ConnectionListing {
  const sourceOf = createConnectionSources(collections);
  return {
    async list(request, { size, token, offset = 0, maxBytes = Number.POSITIVE_INFINITY }) {
      if (offset > maxOffset) {
        const message = `page numbers reach only ${maxOffset} connections; continue with a cursor`;
        throw new Fault("invalid_query_params", message, { mistakes: [{ path: ["page"], message }] });
      }
      const query = inOneOrder(request);
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
