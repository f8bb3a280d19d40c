import { create, equals, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../base/world.ts";
import { disowned } from "../core/channel-foreign.ts";
import { inherited, type Judged, judged, type Loss, toVerify } from "../core/channel-gap.ts";
import { caughtUp, lossFound } from "../core/channel-loss.ts";
import { toldChannel } from "../core/channel-rules.ts";
import { idOf, isCurrent, isForeign, isManaged, isStopping, isToCome, placeOf, shown } from "../core/channel-slot.ts";
import { resourceLearned } from "../core/channel-stopping.ts";
import { messageIdIn } from "../core/notification-values.ts";
import {
  type ChannelHeard,
  ChannelHeardSchema,
  type ChannelRhythm,
  ChannelRhythmSchema,
  type StoredChannel,
} from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type ChannelRules, type NotificationRules, NotificationRulesSchema } from "../gen/latchkey/v1/provider_pb.ts";
import { type Change, StaleWrite, type Store } from "../store/contract.ts";
import type { Lease } from "../store/leases.ts";
import type { Stored } from "../store/records.ts";
import type { CatchUp } from "./catch-up.ts";
import type { ChannelSlots } from "./channel-slots.ts";
import { type Collections, channelHeardKey, channelRhythmKey, seenKey } from "./collections.ts";
import type { Providers } from "./providers.ts";

/**
 * Looks at how channels are heard, some thousands at a time: what was lost, what fell silent, what may be stopped now,
 * what is known no more. Receiving a notification writes what was heard and judges nothing: that is done here, by the
 * one replica that keeps channels, from what all of them have stored.
 */
export interface ChannelLooks {
  /** At a stretch of all channels, and at the next one the next time. */
  look(held: Held): Promise<void>;
}

interface Held {
  readonly lease: Pick<Lease, "fence">;
  readonly signal: AbortSignal;
}

interface LooksOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly slots: ChannelSlots;
  readonly providers: Providers;
  readonly catchUp: CatchUp;
  readonly world: World;
}

/** What is to be known of an integration to judge its channels. */
interface Ground {
  readonly rules: ChannelRules | undefined;
  readonly notification: NotificationRules;
  readonly syncs: readonly string[];
}

const pageSize = 500;
const mostOfLook = 10_000;
/** When all of a provider's channels fall silent at once, the rest of them wait for the next look. */
const mostTold = 200;

export function createChannelLooks(options: LooksOptions): ChannelLooks {
  const { store, collections, slots, providers, catchUp, world } = options;
  const { channels, connections, environments, integrations } = collections;
  const listeningSinceMs = world.now();
  let position: string | undefined;

  /** What was read of a channel, all of it at about the same time. */
  interface Seen {
    readonly found: Stored<StoredChannel>;
    readonly stored: StoredChannel;
    readonly heard: ChannelHeard | undefined;
    readonly rhythm: ChannelRhythm | undefined;
    readonly ground: Ground | undefined;
  }

  async function lookAt(page: readonly Stored<StoredChannel>[], { lease, signal }: Held): Promise<number> {
    const all = await seenOf(page);
    const former = await formerOf(all);
    const changes = former.flatMap(({ stored }) => slots.changes([stored], { put: [], gone: [stored], told: [] }));
    const present = all.filter((one) => !former.includes(one));
    const judgements = await judge(present);
    for (const { seen, after } of judgements.filter(({ losses }) => losses.length === 0)) {
      const isSame = seen.rhythm !== undefined && equals(ChannelRhythmSchema, seen.rhythm, after);
      if (!isSame) changes.push(rhythmChange(seen.stored, after));
    }
    try {
      if (changes.length > 0) await store.commit(changes, [lease.fence]);
    } catch (error) {
      // Somebody else keeps the channels now, or was at one of these: the next look sees.
      if (!(error instanceof StaleWrite)) throw error;
      return 0;
    }
    await disown(present);
    let told = 0;
    for (const one of present) {
      if (signal.aborted || told >= mostTold) break;
      const { stored, heard } = one;
      const learned = heard?.resourceId ?? "";
      if (isStopping(stored) && shown(stored).resourceId === "" && learned !== "") {
        await slots.move(placeOf(stored), (slot) => resourceLearned(slot, idOf(stored), learned, world.now()));
      }
      // One that is being made is not there yet to be notified of what comes after.
      if (stored.catchUp !== "" && !isToCome(stored)) {
        await runCatchUp(one);
        told += 1;
      }
    }
    for (const { seen, after, losses } of judgements) {
      if (signal.aborted || told >= mostTold) break;
      for (const loss of losses) await tell(seen.stored, after, loss);
      told += losses.length;
    }
    return told;
  }

  async function seenOf(page: readonly Stored<StoredChannel>[]): Promise<readonly Seen[]> {
    const keys = page.flatMap(({ value }) => [heardKey(value), rhythmKey(value)]);
    const entries = keys.length === 0 ? [] : await store.getMany(keys);
    const grounds = new Map<string, Ground | undefined>();
    const seen: Seen[] = [];
    for (const [i, found] of page.entries()) {
      const { environment, integration } = placeOf(found.value).ref;
      const at = `${environment}\0${integration}`;
      if (!grounds.has(at)) grounds.set(at, await groundOf(environment, integration));
      const [heard, rhythm] = [entries[2 * i], entries[2 * i + 1]];
      seen.push({
        found,
        stored: found.value,
        heard: heard && fromBinary(ChannelHeardSchema, heard.value),
        rhythm: rhythm && fromBinary(ChannelRhythmSchema, rhythm.value),
        ground: grounds.get(at),
      });
    }
    return seen;
  }

  async function groundOf(environment: string, integration: string): Promise<Ground | undefined> {
    const found = await integrations.get(environment, integration);
    if (found === undefined) return undefined;
    const { channel: rules, notification = noRules } = providers.find(found.value.provider);
    return { rules, notification, syncs: found.value.channels?.catchUpSyncs ?? [] };
  }

  /** Left behind by an environment that was deleted, and perhaps made again since. Read after them, and so no older. */
  async function formerOf(all: readonly Seen[]): Promise<readonly Seen[]> {
    const names = [...new Set(all.map(({ stored }) => placeOf(stored).ref.environment))];
    const found = await environments.getMany(names.map((name) => [name]));
    const ids = new Map(names.map((name, i) => [name, found[i]?.value.id]));
    return all.filter(({ stored }) => {
      const id = ids.get(placeOf(stored).ref.environment);
      return id === undefined || (stored.environmentId !== "" && stored.environmentId !== id);
    });
  }

  /** A script's own is known for as long as the metadata tells of it. */
  async function disown(all: readonly Seen[]): Promise<void> {
    const foreign = all.filter(({ stored }) => isForeign(stored));
    const refs = foreign.map(({ stored }) => placeOf(stored).ref);
    const found = await connections.getMany(
      refs.map(({ environment, integration, id }) => [environment, integration, id]),
    );
    for (const [i, { stored, ground }] of foreign.entries()) {
      const metadata = found[i]?.value.metadata ?? {};
      const told = ground?.rules === undefined ? undefined : toldChannel(metadata, ground.rules);
      if (told?.id === idOf(stored)) continue;
      await slots.move(placeOf(stored), (slot) => disowned(slot, idOf(stored)), { leavesMetadata: true });
    }
  }

  interface Judgement extends Judged {
    readonly seen: Seen;
  }

  async function judge(all: readonly Seen[]): Promise<readonly Judgement[]> {
    const judgeable = all.filter(isJudgeable);
    const before = await rhythmsOf(judgeable);
    const asked = judgeable.map((seen, i) => numbersOf(seen, before[i]));
    const arrived = await arrivedOf(judgeable, asked);
    const nowMs = world.now();
    return judgeable.map((seen, i) => {
      const { stored, heard, ground } = seen;
      const { number, at } = heard ?? {};
      const look = {
        nowMs,
        listeningSinceMs,
        heard: number === undefined || at === undefined ? undefined : { number, atMs: timestampMs(at) },
        isSequential: ground?.rules?.sequentialNumbers === true,
        arrived: arrived[i] ?? new Set<bigint>(),
        isAnnounced: isManaged(stored) && ground?.notification.syncState !== "",
      };
      return { seen, ...judged(before[i], look) };
    });
  }

  /** What earlier looks remember; of one that took another's place, the rhythm of that. */
  async function rhythmsOf(all: readonly Seen[]): Promise<readonly (ChannelRhythm | undefined)[]> {
    const heirs = all.filter(({ stored, rhythm }) => rhythm === undefined && shown(stored).previousId !== "");
    const keys = heirs.map(({ stored }) => channelRhythmKey(placeOf(stored).ref.environment, shown(stored).previousId));
    const entries = keys.length === 0 ? [] : await store.getMany(keys);
    const ofHeirs = new Map(heirs.map((heir, i) => [heir, entries[i]]));
    return all.map((seen) => {
      const entry = ofHeirs.get(seen);
      return entry === undefined ? seen.rhythm : inherited(fromBinary(ChannelRhythmSchema, entry.value), world.now());
    });
  }

  const numbersOf = ({ heard, ground }: Seen, before: ChannelRhythm | undefined): readonly bigint[] =>
    ground?.rules?.sequentialNumbers !== true || heard === undefined
      ? []
      : toVerify(before, { number: heard.number, atMs: 0 });

  /** Which of the messages have come, whichever replica took them: each was noted in the commit that took it. */
  async function arrivedOf(
    all: readonly Seen[],
    asked: readonly (readonly bigint[])[],
  ): Promise<readonly ReadonlySet<bigint>[]> {
    const keys = all.flatMap(({ stored, ground }, i) =>
      (asked[i] ?? []).map((number) => {
        const { environment, integration } = placeOf(stored).ref;
        const message = ground && messageIdIn(ground.notification, { channel: idOf(stored), number });
        return seenKey(environment, integration, message ?? "");
      }),
    );
    const entries = keys.length === 0 ? [] : await store.getMany(keys);
    let next = 0;
    return asked.map((numbers) => new Set(numbers.filter(() => entries[next++] !== undefined)));
  }

  /** The application hears of it in the commit that remembers that it was told. */
  async function tell(stored: StoredChannel, after: ChannelRhythm, { kind, code }: Loss): Promise<void> {
    // One that nobody ever heard is not heard by asking for another: where notifications come to is amiss.
    const isToRenew = code === "beyond_its_rhythm";
    await slots.move(placeOf(stored), (slot) => lossFound(slot, idOf(stored), { kind, code, isToRenew }, world.now()), {
      leavesMetadata: true,
      alongside: () => [rhythmChange(stored, after)],
    });
  }

  async function runCatchUp({ stored, ground }: Seen): Promise<void> {
    const { ref } = placeOf(stored);
    const { environment, integration, id: connection } = ref;
    const syncs = ground?.syncs ?? [];
    try {
      if (syncs.length > 0) {
        await catchUp(ref, syncs, stored.catchUp);
        world.metrics.channelCatchUps.inc({ outcome: "asked" });
      }
    } catch (err) {
      world.metrics.channelCatchUps.inc({ outcome: "failed" });
      world.log.warn("what a channel has lost is not caught up with yet", {
        environment,
        integration,
        connection,
        err,
      });
      return;
    }
    await slots.move(placeOf(stored), (slot) => caughtUp(slot, idOf(stored)), { leavesMetadata: true });
  }

  return {
    async look(held) {
      let told = 0;
      for (let looked = 0; looked < mostOfLook && told < mostTold; looked += pageSize) {
        if (held.signal.aborted) return;
        const page = await channels.page({ under: [], after: position, limit: pageSize });
        told += await lookAt(page, held);
        position = page.length < pageSize ? undefined : page.at(-1)?.position;
        if (position === undefined) return;
      }
    },
  };
}

/** Of one that was replaced, what it still lacked then. */
function isJudgeable({
  stored,
  rhythm,
  ground,
}: {
  readonly stored: StoredChannel;
  readonly rhythm: ChannelRhythm | undefined;
  readonly ground: Ground | undefined;
}): boolean {
  if (ground?.rules === undefined) return false;
  if (isCurrent(stored) || isForeign(stored)) return true;
  return shown(stored).stateReason === "replaced" && (rhythm?.missingBelow ?? 0n) !== 0n;
}

const heardKey = (stored: StoredChannel) => channelHeardKey(placeOf(stored).ref.environment, idOf(stored));
const rhythmKey = (stored: StoredChannel) => channelRhythmKey(placeOf(stored).ref.environment, idOf(stored));
const rhythmChange = (stored: StoredChannel, rhythm: ChannelRhythm): Change => ({
  key: rhythmKey(stored),
  value: toBinary(ChannelRhythmSchema, rhythm),
});

const noRules = create(NotificationRulesSchema);
