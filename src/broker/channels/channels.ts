import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type Channel, type CreateChannelRequest, Channel_State as State } from "../../gen/latchkey/v1/channel_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import type { Audit } from "../audit/audit.ts";
import { targetOf } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import type { Destinations } from "../deliveries/destinations.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { requireRevision } from "../stored/conflict.ts";
import type { ChannelCalls } from "./calls.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { type ChannelAt, type ChannelList, createChannelList } from "./channel-list.ts";
import { createConnectionStop, type StopChannelsOf } from "./connection-stop.ts";
import { newChannelId } from "./rules/channel-id.ts";
import { requestedChannel } from "./rules/request.ts";
import { ownedResource, requestedLifeMs, requireChannelId, watchRuleFor } from "./rules/rules.ts";
import { channelOf, idOf, isManaged, isWanted, resourceOf, stateOf, type WatchedResource } from "./rules/slot.ts";
import { requestStop } from "./rules/stopping.ts";
import type { ChannelSlots } from "./slots.ts";
import { requireMade } from "./watch-fault.ts";

/** Notification channels at providers: created and stopped on request, and kept alive by the scheduler. */
export interface Channels extends Pick<ChannelList, "get" | "list"> {
  create(request: NewChannelRequest, actor: string): Promise<Channel>;
  /** Replaces the channel now, whatever is left of its lifetime. */
  renew(request: ChannelAt & RevisionCheck, actor: string): Promise<Channel>;
  stop(request: ChannelAt & RevisionCheck, actor: string): Promise<Channel>;
  /** Called before a connection is deleted. */
  readonly stopAllOf: StopChannelsOf;
}

interface RevisionCheck {
  readonly expectedRevision: bigint;
}

export interface NewChannelRequest
  extends Pick<CreateChannelRequest, "resourceKind" | "resource" | "id" | "expiresAt"> {
  readonly ref: ConnectionRef;
}

interface ChannelsOptions {
  readonly store: Store;
  readonly collections: ChannelCollections;
  readonly slots: ChannelSlots;
  readonly calls: ChannelCalls;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly destinations: Pick<Destinations, "isCurrent">;
  readonly audit: Audit;
  readonly world: World;
}

/** If the process dies before the request, the scheduler takes over after this time. */
const takenOverMs = 60_000;

export function createChannels(options: ChannelsOptions): Channels {
  const { store, collections, slots, calls, connections, integrations, providers, destinations, audit, world } =
    options;
  const { find, get, list } = createChannelList({ store, collections, destinations });

  const audited = (actor: string, action: string, { ref }: WatchedResource, id: string): Change[] =>
    audit.changes({ actor, action, environment: ref.environment, targets: [`${targetOf(ref)}/${id}`] });

  return {
    get,
    list,
    async create({ ref, id: given, expiresAt, ...named }, actor) {
      const { value: connection } = await connections.get(ref);
      const provider = await providers.findNow(connection.provider);
      const { rules, kind, resource, isDefault } = watchRuleFor(provider, named);
      requireChannelId(given, rules);
      const nowMs = world.now();
      const lifeMs = requestedLifeMs(expiresAt === undefined ? {} : { expiresAt }, nowMs);
      const { environment } = ref;
      if (given !== "" && (await collections.channels.get(environment, given)) !== undefined) {
        throw new Fault("already_exists", `a channel with the id "${given}" already exists`);
      }
      const id = given === "" ? newChannelId() : given;
      const watched = ownedResource({ ref, kind, resource }, provider);
      // The channel is not due yet: this request does the work.
      const dueMs = nowMs + takenOverMs;
      const requested = requestedChannel({ ...watched, id, nowMs, dueMs, askedLifeMs: lifeMs, isDefault, kept: false });
      await slots.move(
        watched,
        (slot) => {
          const other = slot.find(isWanted);
          if (other === undefined) return { put: [requested], removed: [], notices: [] };
          const message = `channel "${idOf(other)}" already watches this resource`;
          throw new Fault("already_exists", message, { metadata: { channel: idOf(other) } });
        },
        { isFirst: true, alongside: () => audited(actor, "channel.create", watched, id) },
      );
      const outcome = await calls.watch(watched, id, { isIdGiven: given !== "" });
      return get({ environment, id: requireMade(outcome) });
    },
    async renew({ environment, id, expectedRevision }, actor) {
      const found = await find({ environment, id });
      requireRevision(found, expectedRevision);
      if (!isManaged(found.value)) {
        throw new Fault(
          "conflict",
          "a script created this channel; create a channel on the same resource to replace it",
        );
      }
      if (stateOf(found.value) !== State.ACTIVE) {
        throw new Fault("conflict", "only an active channel that is not being renewed can be renewed");
      }
      const watched = resourceOf(found.value);
      const alongside = () => audited(actor, "channel.renew", watched, id);
      return get({ environment, id: requireMade(await calls.watch(watched, id, { alongside })) });
    },
    async stop({ environment, id, expectedRevision }, actor) {
      const found = await find({ environment, id });
      const watched = resourceOf(found.value);
      const nowMs = world.now();
      const moved = await slots.move(
        watched,
        (slot) => {
          const now = slot.find((one) => idOf(one) === id);
          if (now !== undefined) requireRevision({ revision: Number(channelOf(now).revision) }, expectedRevision);
          return requestStop(slot, id, nowMs);
        },
        { alongside: () => audited(actor, "channel.stop", watched, id) },
      );
      await calls.stopClaimed(watched, moved, { nowMs });
      return get({ environment, id });
    },
    stopAllOf: createConnectionStop({ slots, calls, connections, integrations, providers, world }),
  };
}
