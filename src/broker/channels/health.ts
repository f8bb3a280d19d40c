import { equals } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { type ChannelRhythm, ChannelRhythmSchema, type StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { Lease } from "../../store/leases.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { CatchUp } from "../syncs/catch-up.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { type ChannelObservation, createChannelObservations, rhythmChange } from "./observations.ts";
import { disowned } from "./rules/foreign.ts";
import type { Loss } from "./rules/gap.ts";
import { caughtUp, lossFound } from "./rules/loss.ts";
import { toldChannel } from "./rules/rules.ts";
import { idOf, isForeign, isStopping, isToCome, placeOf, shown } from "./rules/slot.ts";
import { resourceLearned } from "./rules/stopping.ts";
import type { ChannelSlots } from "./slots.ts";

/**
 * Scans channels, some thousands at a time: which lost messages, which fell silent, which can be stopped now, which no
 * longer exist. Receiving a notification only stores when it arrived. The replica with the lease of channels judges,
 * from what all replicas have stored.
 */
export interface ChannelScans {
  /** Scans some channels; the next call scans the following ones. */
  look(scan: ScanContext): Promise<void>;
}

interface ScanContext {
  readonly lease: Pick<Lease, "fence">;
  readonly signal: AbortSignal;
}

interface ChannelScansOptions {
  readonly store: Store;
  readonly collections: SetupCollections & ConnectionCollections & ChannelCollections;
  readonly slots: ChannelSlots;
  readonly providers: Providers;
  readonly catchUp: CatchUp;
  readonly world: World;
}

const pageSize = 500;
const mostScanned = 10_000;
/** When all channels of a provider fall silent at once, the rest of them wait for the next scan. */
const mostTold = 200;

export function createChannelScans(options: ChannelScansOptions): ChannelScans {
  const { store, collections, slots, providers, catchUp, world } = options;
  const { channels, connections, environments } = collections;
  const observations = createChannelObservations({ store, collections, providers, now: world.now });
  let position: string | undefined;

  /** Returns how many events and catch-ups came of the page. */
  async function scanPage(
    page: readonly StoredRecordOf<StoredChannel>[],
    { lease, signal }: ScanContext,
  ): Promise<number> {
    const all = await observations.read(page);
    const orphans = await orphansOf(all);
    const present = all.filter((one) => !orphans.includes(one));
    const judgements = await observations.judge(present);
    const changes = orphans.flatMap(({ stored }) => slots.changes([stored], { put: [], gone: [stored], told: [] }));
    for (const { observation, after } of judgements.filter(({ losses }) => losses.length === 0)) {
      const { stored, rhythm } = observation;
      const isSame = rhythm !== undefined && equals(ChannelRhythmSchema, rhythm, after);
      if (!isSame) changes.push(rhythmChange(stored, after));
    }
    try {
      if (changes.length > 0) await store.commit(changes, [lease.fence]);
    } catch (error) {
      // Another replica has the lease, or has written one of these channels: the next scan judges them.
      if (!(error instanceof StaleWrite)) throw error;
      return 0;
    }
    await disown(present);
    let told = 0;
    for (const one of present) {
      if (signal.aborted || told >= mostTold) break;
      await learnResource(one);
      // A channel that is still being created has no messages to catch up with.
      if (one.stored.catchUp !== "" && !isToCome(one.stored)) {
        await runCatchUp(one);
        told += 1;
      }
    }
    for (const { observation, after, losses } of judgements) {
      if (signal.aborted || told >= mostTold) break;
      for (const loss of losses) await tell(observation.stored, after, loss);
      told += losses.length;
    }
    return told;
  }

  /** Stores the resource ID of a channel that is to be stopped, once a notification has revealed the ID. */
  async function learnResource({ stored, heard }: ChannelObservation): Promise<void> {
    const learned = heard?.resourceId ?? "";
    if (!isStopping(stored) || shown(stored).resourceId !== "" || learned === "") return;
    await slots.move(placeOf(stored), (slot) => resourceLearned(slot, idOf(stored), learned, world.now()));
  }

  /**
   * Finds channels of an environment that was deleted, and perhaps recreated since. Reads environments after the
   * channels, so no older.
   */
  async function orphansOf(all: readonly ChannelObservation[]): Promise<readonly ChannelObservation[]> {
    const names = [...new Set(all.map(({ stored }) => placeOf(stored).ref.environment))];
    const found = await environments.getMany(names.map((name) => [name]));
    const ids = new Map(names.map((name, i) => [name, found[i]?.value.id]));
    return all.filter(({ stored }) => {
      const id = ids.get(placeOf(stored).ref.environment);
      return id === undefined || (stored.environmentId !== "" && stored.environmentId !== id);
    });
  }

  /** A channel of a script is kept only while the metadata of its connection names it. */
  async function disown(all: readonly ChannelObservation[]): Promise<void> {
    const foreign = all.filter(({ stored }) => isForeign(stored));
    const refs = foreign.map(({ stored }) => placeOf(stored).ref);
    const found = await connections.getMany(
      refs.map(({ environment, integration, id }) => [environment, integration, id]),
    );
    for (const [i, { stored, rules }] of foreign.entries()) {
      const metadata = found[i]?.value.metadata ?? {};
      const named = rules?.channel === undefined ? undefined : toldChannel(metadata, rules.channel);
      if (named?.id === idOf(stored)) continue;
      await slots.move(placeOf(stored), (slot) => disowned(slot, idOf(stored)), { leavesMetadata: true });
    }
  }

  /** Stores the event for the application, and that it was sent, in one commit. */
  async function tell(stored: StoredChannel, after: ChannelRhythm, { kind, code }: Loss): Promise<void> {
    // A new channel would not help one that never delivered: the webhook URL is probably unreachable.
    const isToRenew = code === "beyond_its_rhythm";
    await slots.move(placeOf(stored), (slot) => lossFound(slot, idOf(stored), { kind, code, isToRenew }, world.now()), {
      leavesMetadata: true,
      alongside: () => [rhythmChange(stored, after)],
    });
  }

  async function runCatchUp({ stored, rules }: ChannelObservation): Promise<void> {
    const { ref } = placeOf(stored);
    const { environment, integration, id: connection } = ref;
    const syncs = rules?.catchUpSyncs ?? [];
    try {
      if (syncs.length > 0) {
        await catchUp(ref, syncs, stored.catchUp);
        world.metrics.channelCatchUps.inc({ outcome: "asked" });
      }
    } catch (err) {
      world.metrics.channelCatchUps.inc({ outcome: "failed" });
      const about = { environment, integration, connection, err };
      world.log.warn("the syncs that catch up with a channel's lost messages did not start yet", about);
      return;
    }
    await slots.move(placeOf(stored), (slot) => caughtUp(slot, idOf(stored)), { leavesMetadata: true });
  }

  return {
    async look(scan) {
      let told = 0;
      for (let scanned = 0; scanned < mostScanned && told < mostTold; scanned += pageSize) {
        if (scan.signal.aborted) return;
        const page = await channels.page({ under: [], after: position, limit: pageSize });
        told += await scanPage(page, scan);
        position = page.length < pageSize ? undefined : page.at(-1)?.position;
        if (position === undefined) return;
      }
    },
  };
}
