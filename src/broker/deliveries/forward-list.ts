import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { StoredForward } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Attempt,
  type Forward,
  type ForwardFilter,
  ForwardFilterSchema,
  ForwardSchema,
  Forward_State as State,
} from "../../gen/latchkey/v1/webhook_pb.ts";
import type { PageRequest, StoredRecordOf } from "../../store/records.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type BoundedPage, type PageOf, siftedPage } from "../stored/paging.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardBodies } from "./forward-bodies.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Forwards as operators and callers see them. */
export interface ForwardList {
  get(at: { readonly environment: string; readonly id: string }): Promise<ShownForward>;
  /** Lists forwards, newest first. */
  list(at: ForwardQuery, page: BoundedPage): Promise<PageOf<Forward>>;
  ofNotification(environment: string, notificationId: string): Promise<readonly Forward[]>;
  /** Returns a forward as shown, without its body. */
  outline(forward: Pick<StoredRecordOf<StoredForward>, "value" | "revision">): Forward;
}

/** Forwards as stored. */
export interface ForwardRecords {
  /** Throws `not_found`. */
  find(environment: string, id: string): Promise<StoredRecordOf<StoredForward>>;
  page(query: ForwardQuery, page: BoundedPage): Promise<PageOf<StoredRecordOf<StoredForward>>>;
}

export interface ForwardQuery {
  readonly environment: string;
  readonly filter: ForwardFilter;
}

export interface ShownForward {
  readonly forward: Forward;
  readonly attempts: readonly Attempt[];
}

export const anyForward = create(ForwardFilterSchema);

interface ForwardListOptions {
  readonly collections: Pick<WebhookCollections, "forwards">;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
}

export function createForwardList(options: ForwardListOptions): ForwardList & ForwardRecords {
  const { collections, destinations, bodies } = options;
  const { forwards } = collections;

  async function find(environment: string, id: string): Promise<StoredRecordOf<StoredForward>> {
    const found = namesNothing(environment, id) ? undefined : await forwards.get(environment, id);
    if (found === undefined || !destinations.isCurrent(found.value))
      throw new Fault("not_found", `delivery "${id}" does not exist`);
    return found;
  }

  function outline({ value, revision }: Pick<StoredRecordOf<StoredForward>, "value" | "revision">): Forward {
    const { id, environment, integration, connectionId, type, notificationId, stateReason, attemptCount } = value;
    const { nextAttemptAt, createdAt, updatedAt } = value;
    const isPaused = value.state === State.PENDING && destinations.isPaused(value);
    return create(ForwardSchema, {
      id,
      environment,
      integration,
      connectionId,
      type,
      notificationId,
      stateReason,
      attemptCount,
      destination: destinations.urlOf(value),
      state: isPaused ? State.PAUSED : value.state,
      ...(nextAttemptAt && { nextAttemptAt }),
      ...(createdAt && { createdAt }),
      ...(updatedAt && { updatedAt }),
      revision: BigInt(revision),
    });
  }

  function fits({ integration, connectionId, states, destination, until }: ForwardFilter) {
    const untilMs = until === undefined ? Number.POSITIVE_INFINITY : timestampMs(until);
    return (forward: StoredRecordOf<StoredForward>): boolean => {
      const { value } = forward;
      const { state, destination: url } = outline(forward);
      return (
        destinations.isCurrent(value) &&
        (integration === "" || value.integration === integration) &&
        (connectionId === "" || value.connectionId === connectionId) &&
        (states.length === 0 || states.includes(state)) &&
        (destination === "" || url === destination) &&
        createdMs(value) < untilMs
      );
    };
  }

  /** Picks the narrowest index for the filter, newest first. */
  function sourceOf({ environment, filter: { integration, connectionId, states } }: ForwardQuery) {
    const by = (index: string, under: readonly string[]) => async (request: Pick<PageRequest, "after" | "limit">) => {
      const found = await forwards.pageBy(index, { under, reverse: true, ...request });
      return found.map((one) => ({ ...one, value: one, bytes: one.bytes - one.value.body.length }));
    };
    if (integration !== "" && connectionId !== "") return by("connection", [environment, integration, connectionId]);
    if (states.length === 1 && states[0] === State.DEAD) return by("dead", [environment]);
    return by("made", [environment]);
  }

  function page(query: ForwardQuery, { maxBytes, ...wanted }: BoundedPage) {
    const { environment, filter } = query;
    const { integration, connectionId, since } = filter;
    const isNone = namesNothing(environment, integration, connectionId);
    const sinceMs = since === undefined ? 0 : timestampMs(since);
    return siftedPage<StoredRecordOf<StoredForward>>({
      question: ["forwards", environment, plain(filter)],
      page: wanted,
      read: isNone ? () => Promise.resolve([]) : sourceOf(query),
      isWanted: fits(filter),
      isPast: ({ value }) => createdMs(value) < sinceMs,
      maxBytes,
    });
  }

  return {
    find,
    page,
    async get({ environment, id }) {
      const found = await find(environment, id);
      const { value } = found;
      return { forward: { ...outline(found), body: await bodies.of(value) }, attempts: value.attempts };
    },
    async list(query, wanted) {
      const { items, next } = await page(query, wanted);
      return { items: items.map(outline), next };
    },
    async ofNotification(environment, notificationId) {
      const under = [environment, notificationId];
      const found = await forwards.pageBy("made", { under, limit: Number.MAX_SAFE_INTEGER });
      return found.filter(({ value }) => destinations.isCurrent(value)).map(outline);
    },
    outline,
  };
}

/** Returns the filter as plain JSON, for page tokens. */
const plain = ({ integration, connectionId, states, destination, since, until }: ForwardFilter) => ({
  integration,
  connectionId,
  states,
  destination,
  since: since && timestampMs(since),
  until: until && timestampMs(until),
});

const createdMs = ({ createdAt }: StoredForward): number => (createdAt === undefined ? 0 : timestampMs(createdAt));
