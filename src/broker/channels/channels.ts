import { setTimeout as sleep } from "node:timers/promises";
import { fromBinary } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { ChannelHeardSchema, type StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Channel, type CreateChannelRequest, Channel_State as State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { targetOf } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import { type ChannelCalls, newChannelId, type WatchOutcome } from "./calls.ts";
import { type ChannelCollections, channelHeardKey } from "./channel-collections.ts";
import { adopted } from "./rules/foreign.ts";
import { applied, joined, nothing } from "./rules/move.ts";
import { wished } from "./rules/request.ts";
import { askedLifeMs, defaultWatched, requireChannelId, toldChannel, watchedBy } from "./rules/rules.ts";
import {
  currentOf,
  idOf,
  isManaged,
  isOver,
  isWanted,
  placeOf,
  type Slot,
  shown,
  stateOf,
  type WatchedResource,
} from "./rules/slot.ts";
import { stopAsked } from "./rules/stopping.ts";
import { renewSoon } from "./rules/tasks.ts";
import type { ChannelSlots } from "./slots.ts";

/** Notification channels at providers: created and stopped on request, and kept alive by the scheduler. */
export interface Channels {
  create(asked: ChannelWish, actor: string): Promise<Channel>;
  get(at: ChannelAt): Promise<Channel>;
  list(filter: ChannelFilter, page: PageOptions): Promise<PageOf<Channel>>;
  /** Replaces the channel now, whatever is left of its lifetime. */
  renew(asked: ChannelAt & RevisionCheck, actor: string): Promise<Channel>;
  stop(asked: ChannelAt & RevisionCheck, actor: string): Promise<Channel>;
  /** Called before a connection is deleted: stops all of its channels, as far as possible in a short time. */
  stopAllOf(ref: ConnectionRef): Promise<void>;
}

export interface ChannelAt {
  readonly environment: string;
  readonly id: string;
}

interface RevisionCheck {
  readonly expectedRevision: bigint;
}

export interface ChannelWish extends Pick<CreateChannelRequest, "resourceKind" | "resource" | "id" | "expiresAt"> {
  readonly ref: ConnectionRef;
}

export interface ChannelFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly states: readonly State[];
}

interface ChannelsOptions {
  readonly store: Store;
  readonly collections: ChannelCollections;
  readonly slots: ChannelSlots;
  readonly calls: ChannelCalls;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly destinations: Pick<Destinations, "isOfNow">;
  readonly audit: Audit;
  readonly world: World;
}

/** Limits how long a deletion waits for its channels. */
const stopAllWithinMs = 10_000;

export function createChannels(options: ChannelsOptions): Channels {
  const { store, collections, slots, calls, connections, integrations, providers, destinations, audit, world } =
    options;
  const { channels } = collections;
  const { log } = world;

  /** False for a channel of a deleted environment that had the same name. */
  const isOfNow = (stored: StoredChannel): boolean =>
    destinations.isOfNow({ environment: placeOf(stored).ref.environment, environmentId: stored.environmentId });

  async function find({ environment, id }: ChannelAt): Promise<StoredRecordOf<StoredChannel>> {
    const found = namesNothing(environment, id) ? undefined : await channels.get(environment, id);
    if (found === undefined || !isOfNow(found.value))
      throw new Fault("not_found", `there is no channel "${id}", or not any more`);
    return found;
  }

  /** Adds the last notification of each channel, which is stored separately. */
  async function withHeard(found: readonly StoredChannel[]): Promise<Channel[]> {
    const keys = found.map((one) => channelHeardKey(placeOf(one).ref.environment, idOf(one)));
    const heard = keys.length === 0 ? [] : await store.getMany(keys);
    return found.map((one, i) => {
      const entry = heard[i];
      if (entry === undefined) return shown(one);
      const { number, at } = fromBinary(ChannelHeardSchema, entry.value);
      return { ...shown(one), lastMessageNumber: number, ...(at !== undefined && { lastNotifiedAt: at }) };
    });
  }

  async function show(at: ChannelAt): Promise<Channel> {
    const [channel] = await withHeard([(await find(at)).value]);
    if (channel === undefined) throw new Error("one channel is shown as one");
    return channel;
  }

  const line = (actor: string, action: string, { ref }: WatchedResource, id: string): Change[] =>
    audit.changes({ actor, action, environment: ref.environment, targets: [`${targetOf(ref)}/${id}`] });

  /** Turns the outcome of a watch into the caller's result or error. */
  async function outcome(at: ChannelAt, came: WatchOutcome): Promise<Channel> {
    switch (came.kind) {
      case "made":
        return show({ ...at, id: came.id });
      case "overtaken":
        throw new Fault("conflict", "somebody else is making a channel on this resource at this moment");
      case "unsent":
        if (came.fault !== undefined) throw came.fault;
        throw new Fault("connection_unusable", `nothing could be asked of the provider (${came.code})`);
      case "id_taken":
        throw new Fault("already_exists", "the provider knows a channel of this id");
      case "refused":
        if (came.fault !== undefined) throw came.fault;
        throw new Fault("connection_unusable", `the provider refuses the channel (${came.code})`);
      case "put_off": {
        const retryAfterSeconds = Math.ceil((came.retryAfterMs ?? 1_000) / 1_000);
        throw new Fault("provider_unreachable", `the provider makes no channel now (${came.code})`, {
          retryAfterSeconds,
        });
      }
      case "unheard": {
        const message = `whether the provider made the channel is not known (${came.code}); if it did, it is stopped`;
        throw new Fault("provider_closed", message);
      }
    }
  }

  return {
    async create({ ref, id: given, expiresAt, ...named }, actor) {
      const { value: connection } = await connections.get(ref);
      const watched = watchedBy(await providers.findNow(connection.provider), named);
      requireChannelId(given, watched.rules);
      const nowMs = world.now();
      const lifeMs = askedLifeMs(expiresAt === undefined ? {} : { expiresAt }, nowMs);
      const { environment } = ref;
      if (given !== "" && (await channels.get(environment, given)) !== undefined) {
        throw new Fault("already_exists", `there is a channel "${given}" already`);
      }
      const id = given === "" ? newChannelId() : given;
      const place = { ref, kind: watched.kind, resource: watched.resource };
      // Not due yet: this request does the work. If the process dies, the scheduler takes over a minute later.
      const wish = wished({
        ...{ ...place, id, nowMs, askedLifeMs: lifeMs, isDefault: watched.isDefault, kept: false },
        dueMs: nowMs + 60_000,
      });
      await slots.move(
        place,
        (slot) => {
          const other = slot.find(isWanted);
          if (other === undefined) return { put: [wish], gone: [], told: [] };
          const message = `the channel "${idOf(other)}" watches this already, and is kept alive`;
          throw new Fault("already_exists", message, { metadata: { channel: idOf(other) } });
        },
        { isFirst: true, alongside: () => line(actor, "channel.create", place, id) },
      );
      return outcome({ environment, id }, await calls.watch(place, id, { isIdGiven: given !== "" }));
    },
    get: show,
    async list({ environment, integration, connectionId, states }, page) {
      const isNone = namesNothing(environment, integration, connectionId);
      const under = [
        environment,
        ...(integration === "" ? [] : [integration, ...(connectionId === "" ? [] : [connectionId])]),
      ];
      const { items, next } = await siftedPage<StoredChannel>({
        question: ["channels", environment, integration, connectionId, [...states].sort()],
        page,
        read: (request) => (isNone ? Promise.resolve([]) : channels.pageBy("slot", { under, ...request })),
        isWanted: (stored) => isOfNow(stored) && (states.length === 0 || states.includes(stateOf(stored))),
        isPast: () => false,
      });
      return { items: await withHeard(items), next };
    },
    async renew({ environment, id, expectedRevision }, actor) {
      const found = await find({ environment, id });
      requireRevision(found, expectedRevision);
      if (!isManaged(found.value)) {
        throw new Fault("conflict", "the channel is a script's own: one that is created takes its place");
      }
      if (stateOf(found.value) !== State.ACTIVE) {
        throw new Fault("conflict", "only a channel that is active, and is not being renewed, can be renewed");
      }
      const place = placeOf(found.value);
      const came = await calls.watch(place, id, { alongside: () => line(actor, "channel.renew", place, id) });
      return outcome({ environment, id }, came);
    },
    async stop({ environment, id, expectedRevision }, actor) {
      const found = await find({ environment, id });
      const place = placeOf(found.value);
      const nowMs = world.now();
      const moved = await slots.move(
        place,
        (slot) => {
          const now = slot.find((one) => idOf(one) === id);
          if (now !== undefined) requireRevision({ revision: Number(shown(now).revision) }, expectedRevision);
          return stopAsked(slot, id, nowMs);
        },
        { alongside: () => line(actor, "channel.stop", place, id) },
      );
      await calls.stopClaimed(place, moved, { nowMs });
      return show({ environment, id });
    },
    async stopAllOf(ref) {
      const late = AbortSignal.timeout(stopAllWithinMs);
      const all = stopAll(ref, late).catch((err: unknown) => {
        const { environment, integration, id: connection } = ref;
        log.error("the channels of a connection that is deleted were not stopped", {
          environment,
          integration,
          connection,
          err,
        });
      });
      await Promise.race([all, sleep(stopAllWithinMs, undefined, { ref: false })]);
    },
  };

  async function stopAll(ref: ConnectionRef, signal: AbortSignal): Promise<void> {
    const { value: connection } = await connections.get(ref);
    const { value: integration } = await integrations.get({ environment: ref.environment, key: ref.integration });
    const isOurs = integration.channels?.automatic === true;
    const mine = (await slots.readAll(ref)).filter((one) => !isOver(one) && (isOurs || isManaged(one)));
    const places = new Map(
      mine.map((one) => [JSON.stringify([placeOf(one).kind, placeOf(one).resource]), placeOf(one)]),
    );
    // A channel that only the metadata names, if the integration manages channels automatically.
    const foreign = isOurs ? foreignOf(connection) : undefined;
    if (foreign !== undefined) places.set(JSON.stringify([foreign.place.kind, foreign.place.resource]), foreign.place);
    await Promise.all(
      [...places.values()].map(async (place) => {
        // Leaves the connection unchanged: its deletion may depend on its revision.
        const nowMs = world.now();
        const moved = await slots.move(
          place,
          (slot) => {
            const isItsPlace = foreign?.place.kind === place.kind && foreign.place.resource === place.resource;
            const come = isItsPlace ? adopted(slot, place, foreign.told, nowMs) : nothing;
            const after = applied(slot, come);
            return joined(come, allStopped(isOurs ? after : after.filter(isManaged), nowMs));
          },
          { leavesMetadata: true },
        );
        await calls.stopClaimed(place, moved, { nowMs, signal });
      }),
    );
  }

  function foreignOf({ ref, metadata = {}, provider }: Connection) {
    const description = providers.find(provider);
    const { channel: rules } = description;
    const watched = defaultWatched(description);
    const told = rules === undefined ? undefined : toldChannel(metadata, rules);
    if (ref === undefined || watched === undefined || told === undefined) return undefined;
    return { told, place: { ref, kind: watched.kind, resource: watched.resource } };
  }
}

function allStopped(slot: Slot, nowMs: number) {
  const put = slot.filter((one) => !isOver(one)).flatMap((one) => stopAsked(slot, idOf(one), nowMs).put);
  // Stopping a channel also stops its replacement in creation, which is in the slot as well: remove duplicates.
  return { put: [...new Map(put.map((one) => [idOf(one), one])).values()], gone: [], told: [] };
}

interface FiledConnectionEvent {
  readonly ref: ConnectionRef;
  readonly integration: Integration;
  readonly provider: Provider;
  /** The end user has just authorized the connection, so existing channels were made with other credentials. */
  readonly isAuthorized: boolean;
  readonly isNew: boolean;
  readonly nowMs: number;
}

/** Changes for storing a connection: with automatic channels, its channel is requested in the same commit. */
export async function channelChanges(slots: ChannelSlots, filed: FiledConnectionEvent): Promise<Change[]> {
  const { ref, integration, provider, isAuthorized, isNew, nowMs } = filed;
  const watched = integration.channels?.automatic === true ? defaultWatched(provider) : undefined;
  if (watched === undefined) return [];
  const place = { ref, kind: watched.kind, resource: watched.resource };
  const slot = isNew ? [] : await slots.read(place);
  if (!slot.some(isWanted)) {
    return slots.added(wished({ ...place, id: newChannelId(), nowMs, askedLifeMs: 0, isDefault: true, kept: true }));
  }
  const current = currentOf(slot);
  // An import usually brings credentials of the same account: the existing channel continues.
  const isToRenew = isAuthorized || current === undefined || current.failures > 0;
  return isToRenew ? slots.changes(slot, renewSoon(slot, nowMs)) : [];
}
