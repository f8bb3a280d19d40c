import { equals } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { ChannelRhythmSchema, type StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { HeldPartition } from "../partitions/held-partition.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { ChannelCollections } from "./channel-collections.ts";
import { createLeftoverChannels } from "./leftover-channels.ts";
import type { LossReports } from "./loss-reports.ts";
import { type ChannelObservation, createChannelObservations, rhythmChange } from "./observations.ts";
import { channelOf, idOf, isPending, isStopping, resourceOf } from "./rules/slot.ts";
import { recordResourceId } from "./rules/stopping.ts";
import type { ChannelSlots } from "./slots.ts";

/**
 * Scans channels, some thousands at a time: which lost messages, which fell silent, which can be stopped now, which no
 * longer exist. Receiving a notification only stores when it arrived. One replica judges, from what all replicas
 * have stored.
 */
export interface ChannelScans {
  /** Scans some channels; the next call scans the following ones. */
  scanNext(scan: ScanContext): Promise<void>;
}

interface ScanContext {
  readonly partition: Pick<HeldPartition, "fence">;
  readonly signal: AbortSignal;
}

interface ChannelScansOptions {
  readonly store: Store;
  readonly collections: SetupCollections & ConnectionCollections & ChannelCollections;
  readonly slots: ChannelSlots;
  readonly providers: Providers;
  readonly reports: LossReports;
  readonly world: World;
}

const pageSize = 500;
const mostScanned = 10_000;
/** When all channels of a provider fall silent at once, the rest of them wait for the next scan. */
const mostHandled = 200;

export function createChannelScans(options: ChannelScansOptions): ChannelScans {
  const { store, collections, slots, providers, reports, world } = options;
  const { channels } = collections;
  const observations = createChannelObservations({ store, collections, providers, now: world.now });
  const leftovers = createLeftoverChannels({ collections, slots });
  let position: string | undefined;

  /** Returns how many events and catch-ups came of the page. */
  async function scanPage(
    page: readonly StoredRecordOf<StoredChannel>[],
    { partition, signal }: ScanContext,
  ): Promise<number> {
    const all = await observations.read(page);
    const orphans = await leftovers.orphansIn(all);
    const present = all.filter((one) => !orphans.includes(one));
    const judgements = await observations.judge(present);
    const changes = orphans.flatMap(({ stored }) =>
      slots.changes([stored], { put: [], removed: [stored], notices: [] }),
    );
    for (const { observation, after } of judgements.filter(({ losses }) => losses.length === 0)) {
      const { stored, rhythm } = observation;
      const isSame = rhythm !== undefined && equals(ChannelRhythmSchema, rhythm, after);
      if (!isSame) changes.push(rhythmChange(stored, after));
    }
    try {
      if (changes.length > 0) await store.commit(changes, [partition.fence]);
    } catch (error) {
      // Another replica has the partition, or has written one of these channels: the next scan judges them.
      if (!(error instanceof StaleWrite)) throw error;
      return 0;
    }
    await leftovers.disown(present);
    let handled = 0;
    for (const one of present) {
      if (signal.aborted || handled >= mostHandled) break;
      await learnResource(one);
      // A channel that is still being created has no messages to catch up with.
      if (one.stored.catchUp !== "" && !isPending(one.stored)) {
        await reports.startCatchUp(one);
        handled += 1;
      }
    }
    for (const { observation, after, losses } of judgements) {
      if (signal.aborted || handled >= mostHandled) break;
      for (const loss of losses) await reports.report(observation.stored, after, loss);
      handled += losses.length;
    }
    return handled;
  }

  /** Stores the resource ID of a channel that is to be stopped, once a notification has revealed the ID. */
  async function learnResource({ stored, last }: ChannelObservation): Promise<void> {
    const learned = last?.resourceId ?? "";
    if (!isStopping(stored) || channelOf(stored).resourceId !== "" || learned === "") return;
    await slots.move(resourceOf(stored), (slot) => recordResourceId(slot, idOf(stored), learned, world.now()));
  }

  return {
    async scanNext(scan) {
      let handled = 0;
      for (let scanned = 0; scanned < mostScanned && handled < mostHandled; scanned += pageSize) {
        if (scan.signal.aborted) return;
        const page = await channels.page({ under: [], after: position, limit: pageSize });
        handled += await scanPage(page, scan);
        position = page.length < pageSize ? undefined : page.at(-1)?.position;
        if (position === undefined) return;
      }
    },
  };
}
