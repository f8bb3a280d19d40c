import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { sequentialId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type StoredForward, StoredForward_Address } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  type Attempt,
  type Forward,
  type ForwardFilter,
  ForwardFilterSchema,
  ForwardSchema,
  Forward_State as State,
} from "../../gen/latchkey/v1/webhook_pb.ts";
import { type Change, StaleWrite, type Store } from "../../store/contract.ts";
import type { PageRequest, StoredRecordOf } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type BoundedPage, type PageOf, siftedPage } from "../stored/paging.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardBodies } from "./forward-bodies.ts";
import { forwardId } from "./forward-id.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Copies of notifications, and Latchkey's own events, on their way to the application. */
export interface Forwards {
  /** Creates one forward for each address of the connection. */
  newFor(cause: ForwardCause, connectionId: string): readonly StoredForward[];
  changes(made: readonly StoredForward[]): Change[];
  get(at: { readonly environment: string; readonly id: string }): Promise<ShownForward>;
  /** Lists forwards, newest first. */
  list(
    at: { readonly environment: string; readonly filter: ForwardFilter },
    page: BoundedPage,
  ): Promise<PageOf<Forward>>;
  ofNotification(environment: string, notificationId: string): Promise<readonly Forward[]>;
  /** Returns a forward as shown, without its body. */
  outline(forward: Pick<StoredRecordOf<StoredForward>, "value" | "revision">): Forward;
  replay(asked: Replay, actor: string): Promise<ReplayResult>;
}

export interface ForwardCause {
  readonly environment: string;
  readonly integration: string;
  /** `forward`, `auth`, `sync` or `channel`. */
  readonly type: string;
  /** Identifies the message: a repeat of the same message has the same value. */
  readonly message: string;
  /** Empty for Latchkey's own events. */
  readonly notificationId: string;
  /** Body of Latchkey's own events. */
  readonly body: Uint8Array;
  /** First attempts of forwards with the same key are made in order; empty: in any order. */
  readonly orderKey: string;
  readonly number: string;
}

export interface ShownForward {
  readonly forward: Forward;
  readonly attempts: readonly Attempt[];
}

export interface Replay {
  readonly environment: string;
  readonly ids: readonly string[];
  /** Selects forwards in place of ids. */
  readonly filter: ForwardFilter | undefined;
}

export interface ReplayResult {
  readonly replayed: number;
  readonly refused: ReadonlyMap<string, Fault>;
}

interface ForwardsOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly audit: Audit;
  readonly world: World;
}

const replayChunk = 500;
const farPast = 0;

export function createForwards(options: ForwardsOptions): Forwards {
  const { store, collections, destinations, bodies, audit, world } = options;
  const { forwards } = collections;

  async function find(environment: string, id: string): Promise<StoredRecordOf<StoredForward>> {
    const found = namesNothing(environment, id) ? undefined : await forwards.get(environment, id);
    if (found === undefined || !destinations.isOfNow(found.value))
      throw new Fault("not_found", `there is no forward "${id}", or not any more`);
    return found;
  }

  function outline({ value, revision }: Pick<StoredRecordOf<StoredForward>, "value" | "revision">): Forward {
    const { attempts: _, ...known } = value;
    const { id, environment, integration, connectionId, type, notificationId, stateReason, attemptCount } = known;
    const url = destinations.urlOf(value);
    const isPaused = value.state === State.PENDING && destinations.isPaused(value);
    return create(ForwardSchema, {
      ...{ id, environment, integration, connectionId, type, notificationId, stateReason, attemptCount },
      destination: url,
      state: isPaused ? State.PAUSED : value.state,
      ...times(value),
      revision: BigInt(revision),
    });
  }

  function fits(filter: ForwardFilter) {
    const { integration, connectionId, states, destination, until } = filter;
    const untilMs = until === undefined ? Number.POSITIVE_INFINITY : timestampMs(until);
    return (forward: StoredRecordOf<StoredForward>): boolean => {
      const { value } = forward;
      const { state, destination: url } = outline(forward);
      return (
        destinations.isOfNow(value) &&
        (integration === "" || value.integration === integration) &&
        (connectionId === "" || value.connectionId === connectionId) &&
        (states.length === 0 || states.includes(state)) &&
        (destination === "" || url === destination) &&
        madeAt(value) < untilMs
      );
    };
  }

  /** Picks the narrowest index for the filter, newest first. */
  function sourceOf(environment: string, { integration, connectionId, states }: ForwardFilter) {
    const by = (index: string, under: readonly string[]) => async (request: Pick<PageRequest, "after" | "limit">) => {
      const found = await forwards.pageBy(index, { under, reverse: true, ...request });
      return found.map((one) => ({ ...one, value: one, bytes: one.bytes - one.value.body.length }));
    };
    if (integration !== "" && connectionId !== "") return by("connection", [environment, integration, connectionId]);
    if (states.length === 1 && states[0] === State.DEAD) return by("dead", [environment]);
    return by("made", [environment]);
  }

  async function sifted(
    { environment, filter }: { readonly environment: string; readonly filter: ForwardFilter },
    { maxBytes, ...page }: BoundedPage,
  ): Promise<PageOf<StoredRecordOf<StoredForward>>> {
    const { integration, connectionId, since } = filter;
    const isNone = namesNothing(environment, integration, connectionId);
    const sinceMs = since === undefined ? farPast : timestampMs(since);
    return siftedPage<StoredRecordOf<StoredForward>>({
      question: ["forwards", environment, plain(filter)],
      page,
      read: isNone ? () => Promise.resolve([]) : sourceOf(environment, filter),
      isWanted: fits(filter),
      isPast: ({ value }) => madeAt(value) < sinceMs,
      maxBytes,
    });
  }

  /** Resets a forward as if it were new; its past attempts stay visible. */
  async function replayOne(environment: string, id: string): Promise<void> {
    for (;;) {
      const before = await find(environment, id);
      if (before.value.state === State.PENDING && before.value.attemptCount === 0) return;
      const now = timestampFromMs(world.now());
      const { scheduledFor: _, ...rest } = before.value;
      const after: StoredForward = {
        ...rest,
        state: State.PENDING,
        stateReason: "",
        scheduleStep: 0,
        nextAttemptAt: now,
        updatedAt: now,
      };
      if (destinations.urlOf(after) === "") {
        throw new Fault("conflict", "the environment has no forward URL that it could be sent to");
      }
      try {
        await store.commit(forwards.change({ before, after }));
        return;
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
      }
    }
  }

  return {
    newFor(cause, connectionId) {
      const { environment, integration, type, message, notificationId, body, orderKey, number } = cause;
      const nowMs = world.now();
      const now = timestampFromMs(nowMs);
      const addresses = destinations.addressesFor(environment, { integration, connectionId });
      const environmentId = destinations.environmentByName(environment)?.id ?? "";
      return addresses.map(({ address, overrideUrl }) => {
        const isSecondary = address === StoredForward_Address.SECONDARY;
        const hasUrl = destinations.urlOf({ environment, address, overrideUrl }) !== "";
        const made: StoredForward = {
          $typeName: "latchkey.stored.v1.StoredForward",
          environment,
          environmentId,
          integration,
          connectionId,
          type,
          notificationId,
          body,
          address,
          overrideUrl,
          id: forwardId({ environment, integration, message, connectionId, isSecondary }),
          sequence: notificationId === "" ? sequentialId(nowMs) : notificationId,
          // Order keys are separate for each connection and each integration.
          lane: orderKey === "" ? "" : `${integration}\0${connectionId}\0${orderKey}`,
          number,
          state: hasUrl ? State.PENDING : State.NO_DESTINATION,
          stateReason: hasUrl ? "" : "no_forward_url",
          attemptCount: 0,
          attempts: [],
          scheduleStep: 0,
          createdAt: now,
          updatedAt: now,
        };
        return hasUrl ? { ...made, nextAttemptAt: now } : made;
      });
    },
    changes: (made) => made.flatMap((after) => forwards.change({ before: undefined, after })),
    async get({ environment, id }) {
      const found = await find(environment, id);
      const { value } = found;
      return { forward: { ...outline(found), body: await bodies.of(value) }, attempts: value.attempts };
    },
    async list(at, page) {
      const { items, next } = await sifted(at, page);
      return { items: items.map(outline), next };
    },
    async ofNotification(environment, notificationId) {
      const under = [environment, notificationId];
      const found = await forwards.pageBy("made", { under, limit: Number.MAX_SAFE_INTEGER });
      return found.filter(({ value }) => destinations.isOfNow(value)).map(outline);
    },
    outline,
    async replay({ environment, ids, filter }, actor) {
      const refused = new Map<string, Fault>();
      let replayed = 0;
      const replayAll = (some: readonly string[]) =>
        Promise.all(
          some.map(async (id) => {
            try {
              await replayOne(environment, id);
              replayed += 1;
            } catch (error) {
              // A Fault concerns this forward alone; an error of the store concerns all of them.
              if (!(error instanceof Fault)) throw error;
              refused.set(id, error);
            }
          }),
        );
      await replayAll(ids);
      if (filter !== undefined) {
        for (let token = ""; ; ) {
          const { items, next } = await sifted({ environment, filter }, { size: replayChunk, token });
          await replayAll(items.map(({ value }) => value.id));
          token = next;
          if (token === "") break;
        }
      }
      const targets = ids.length > 0 ? ids.slice(0, 100) : ["by filter"];
      await store.commit(audit.changes({ actor, action: "forward.replay", environment, targets }));
      return { replayed, refused };
    },
  };
}

const plain = ({ integration, connectionId, states, destination, since, until }: ForwardFilter) => ({
  integration,
  connectionId,
  states,
  destination,
  since: since && timestampMs(since),
  until: until && timestampMs(until),
});

export const anyForward = create(ForwardFilterSchema);

const madeAt = ({ createdAt }: StoredForward): number => (createdAt === undefined ? 0 : timestampMs(createdAt));

const times = ({ nextAttemptAt, createdAt, updatedAt }: StoredForward) => ({
  ...(nextAttemptAt && { nextAttemptAt }),
  ...(createdAt && { createdAt }),
  ...(updatedAt && { updatedAt }),
});
