import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../base/world.ts";
import { adopted, overtaken } from "../core/channel-foreign.ts";
import { applied, isNothing, joined } from "../core/channel-move.ts";
import { defaultWatched, toldChannel } from "../core/channel-rules.ts";
import { isLastWord, isWanted, type Place, placeOf } from "../core/channel-slot.ts";
import { wished } from "../core/channel-wish.ts";
import type { StoredChannel } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { type Connection, Connection_State } from "../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../store/contract.ts";
import { createHeldLease } from "../store/held-lease.ts";
import { after, partsOf } from "../store/keys.ts";
import { type ChannelCalls, newChannelId } from "./channel-calls.ts";
import type { ChannelLooks } from "./channel-looks.ts";
import { type ChannelSlots, partsOfPlace } from "./channel-slots.ts";
import { type Collections, channelsDue, timeOfDueKey } from "./collections.ts";
import type { Providers } from "./providers.ts";

/**
 * Does about channels what has become due: one replica for all, some at a time of each integration, and none of one
 * whose provider said to come later. What it does is written down by each move, so that it has no memory to lose.
 */
export interface ChannelKeeper {
  /** From now on, and as soon as this replica has the lease. */
  start(): void;
  /** All that is due now, instead of within a second. */
  run(): Promise<void>;
  close(): Promise<void>;
}

interface KeeperOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly slots: ChannelSlots;
  readonly calls: ChannelCalls;
  readonly looks: ChannelLooks;
  readonly providers: Providers;
  /** Empty until the doors listen: providers cannot be told where to send anything before that. */
  readonly publicUrl: () => string;
  readonly world: World;
}

const leaseMs = 15_000;
const lookEveryMs = 1_000;
/** At a fifth of a second a call, 20 a second: less than what providers allow an app, and a thousand within a minute. */
const mostOfIntegration = 4;
const mostInAll = 32;
const pageSize = 500;
/** So many of the due are looked through for some that can be begun. */
const lookedThrough = 20_000;
const mostWaiting = 1_000;
const troubleMs = 5_000;
const closeWithinMs = 10_000;
/** Connections that are looked at, a stretch a minute, for channels that they should have and have not. */
const walkEveryMs = 60_000;
const perWalk = 1_000;

export function createChannelKeeper(options: KeeperOptions): ChannelKeeper {
  const { store, collections, slots, calls, looks, providers, publicUrl, world } = options;
  const { channels, connections, integrations } = collections;
  const { metrics, log } = world;
  const lease = createHeldLease({ store, name: "channels", lengthMs: leaseMs });
  const ended = new AbortController();
  /** By slot. */
  const underWay = new Map<string, Promise<void>>();
  const ofIntegration = new Map<string, number>();
  /** Until when nothing is asked for an integration. */
  const held = new Map<string, number>();
  /** What failed for a reason of our own, such as a store that is away. */
  const troubled = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<number> | undefined;
  let walkedAt = Number.NEGATIVE_INFINITY;
  let scannedAt = Number.NEGATIVE_INFINITY;
  /** Found due by the last scan, and not begun. */
  let waiting: StoredChannel[] = [];
  let walkPosition: string | undefined;

  const integrationOf = (stored: StoredChannel): string => {
    const { environment, integration } = placeOf(stored).ref;
    return `${environment}\0${integration}`;
  };

  function isHeld(integration: string): boolean {
    const until = held.get(integration);
    if (until === undefined) return false;
    // A clock that was set back must not hold it for ever.
    if (until > world.now() && until <= world.now() + 86_400_000) return true;
    held.delete(integration);
    return false;
  }

  /** How many were begun. */
  async function look(): Promise<number> {
    const held = publicUrl() === "" ? undefined : await lease.hold();
    if (held === undefined) return 0;
    if (performance.now() - walkedAt > walkEveryMs) {
      walkedAt = performance.now();
      await walk();
      await looks.look({ lease: held, signal: ended.signal });
    }
    if (performance.now() - scannedAt < lookEveryMs) {
      const begun = beginWaiting();
      if (begun > 0 || (waiting.length > 0 && underWay.size > 0)) return begun;
    }
    return scan();
  }

  /** What was due a moment ago and could not begin then: looked through without a read each time that one is done. */
  function beginWaiting(): number {
    let begun = 0;
    const left: StoredChannel[] = [];
    for (const [i, one] of waiting.entries()) {
      if (underWay.size >= mostInAll) {
        left.push(...waiting.slice(i));
        break;
      }
      // Whoever looks after a slot does all that is due of it.
      if (underWay.has(slotOf(one))) continue;
      if (mayBegin(one)) {
        begin(one);
        begun += 1;
      } else left.push(one);
    }
    waiting = left;
    return begun;
  }

  async function scan(): Promise<number> {
    scannedAt = performance.now();
    const nowMs = world.now();
    let { from, to } = channelsDue(nowMs);
    let begun = 0;
    let isFirst = true;
    waiting = [];
    for (let seen = 0; seen < lookedThrough && underWay.size < mostInAll && !ended.signal.aborted; seen += pageSize) {
      const page = await store.list({ from, to, limit: pageSize });
      const oldest = page[0];
      if (isFirst)
        metrics.channelsOverdue.set(oldest === undefined ? 0 : Math.max(0, nowMs - timeOfDueKey(oldest.key)) / 1_000);
      isFirst = false;
      const found = await channels.getMany(page.map(({ key }) => partsOf(key).slice(-2)));
      for (const one of found) {
        if (one === undefined) continue;
        if (mayBegin(one.value)) {
          begin(one.value);
          begun += 1;
        } else if (waiting.length < mostWaiting) waiting.push(one.value);
      }
      const last = page.at(-1);
      if (last === undefined || page.length < pageSize) break;
      from = after(last.key);
    }
    return begun;
  }

  const slotOf = (stored: StoredChannel): string => partsOfPlace(placeOf(stored)).join("\0");

  function mayBegin(stored: StoredChannel): boolean {
    const at = integrationOf(stored);
    const slot = slotOf(stored);
    return (
      underWay.size < mostInAll &&
      !underWay.has(slot) &&
      (ofIntegration.get(at) ?? 0) < mostOfIntegration &&
      !isHeld(at) &&
      (troubled.get(slot) ?? 0) <= performance.now()
    );
  }

  function begin(stored: StoredChannel): void {
    const at = integrationOf(stored);
    const slot = slotOf(stored);
    ofIntegration.set(at, (ofIntegration.get(at) ?? 0) + 1);
    troubled.delete(slot);
    const tended = calls
      .tend(placeOf(stored), ended.signal)
      .then(({ retryAfterMs }) => {
        if (retryAfterMs !== undefined) held.set(at, world.now() + Math.min(retryAfterMs, 86_400_000));
      })
      .catch((err: unknown) => {
        if (ended.signal.aborted) return;
        troubled.set(slot, performance.now() + troubleMs);
        const { environment, integration, id: connection } = placeOf(stored).ref;
        log.error("a channel was not looked after, and will be", { environment, integration, connection, err });
      })
      .finally(() => {
        underWay.delete(slot);
        const left = (ofIntegration.get(at) ?? 1) - 1;
        if (left === 0) ofIntegration.delete(at);
        else ofIntegration.set(at, left);
        lookSoon();
      });
    underWay.set(slot, tended);
  }

  function lookSoon(): void {
    if (timer === undefined || ended.signal.aborted) return;
    void lookOnce();
  }

  function lookOnce(): Promise<number> {
    looking ??= look()
      .catch((err: unknown) => {
        if (!ended.signal.aborted) log.warn("what is due of channels could not be looked at, and will be", { err });
        return 0;
      })
      .finally(() => {
        looking = undefined;
      });
    return looking;
  }

  /**
   * Channels that scripts have made are known from the metadata. Where channels are automatic, a connection that has
   * none is given one: those that were there before they became automatic, and whatever went another way than
   * foreseen. One that somebody has stopped stays stopped.
   */
  async function walk(): Promise<void> {
    const all = await integrations.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
    const watchable = all.filter(({ value }) => defaultWatched(providers.find(value.provider)) !== undefined);
    if (watchable.length === 0) return;
    const isAutomatic = new Map(
      watchable.map(({ value }) => [`${value.environment}\0${value.key}`, value.channels?.automatic === true]),
    );
    const page = await connections.page({ under: [], after: walkPosition, limit: perWalk });
    walkPosition = page.length < perWalk ? undefined : page.at(-1)?.position;
    const found = page.flatMap(({ value }) => {
      const automatic = isAutomatic.get(`${value.ref?.environment}\0${value.ref?.integration}`);
      return automatic === undefined ? [] : [{ connection: value, automatic }];
    });
    await adopt(found);
    for (const { connection, automatic } of found) {
      if (automatic && connection.state !== Connection_State.REAUTHORIZATION_REQUIRED) await ensure(connection);
    }
  }

  interface Walked {
    readonly connection: Connection;
    readonly automatic: boolean;
  }

  /** What the metadata tells of is known; where channels are automatic, ours takes its place. */
  async function adopt(found: readonly Walked[]): Promise<void> {
    const told = found.flatMap((one) => {
      const id = toldIn(one.connection)?.id;
      return id === undefined ? [] : [{ ...one, id }];
    });
    const known = await channels.getMany(told.map(({ connection, id }) => [connection.ref?.environment ?? "", id]));
    for (const [i, { connection, automatic }] of told.entries()) {
      const place = known[i] === undefined ? placeIn(connection) : undefined;
      if (place === undefined) continue;
      await slots.move(
        place,
        (slot, now) => {
          const channel = now === undefined ? undefined : toldIn(now);
          if (channel === undefined) return undefined;
          const moved = adopted(slot, place, channel, world.now());
          if (!automatic || isNothing(moved)) return moved;
          return joined(moved, overtaken(applied(slot, moved), world.now()));
        },
        { leavesMetadata: true },
      );
    }
  }

  const toldIn = ({ provider, metadata = {} }: Connection) => {
    const rules = providers.find(provider).channel;
    return rules === undefined ? undefined : toldChannel(metadata, rules);
  };

  function placeIn({ ref, provider }: Connection): Place | undefined {
    const watched = defaultWatched(providers.find(provider));
    return ref === undefined || watched === undefined
      ? undefined
      : { ref, kind: watched.kind, resource: watched.resource };
  }

  async function ensure(connection: Connection): Promise<void> {
    const place = placeIn(connection);
    if (place === undefined) return;
    const isSettled = (one: StoredChannel) => isWanted(one) || isLastWord(one);
    await slots.move(
      place,
      (slot, now) => {
        if (now === undefined || slot.some(isSettled)) return undefined;
        const nowMs = world.now();
        const wish = wished({ ...place, id: newChannelId(), nowMs, askedLifeMs: 0, isDefault: true, kept: true });
        return { put: [wish], gone: [], told: [] };
      },
      { isFirst: true },
    );
  }

  return {
    start() {
      // Times of the wall clock are looked at often, rather than waited for: it may be set.
      timer ??= setInterval(lookSoon, lookEveryMs).unref();
    },
    async run() {
      walkedAt = Number.NEGATIVE_INFINITY;
      scannedAt = Number.NEGATIVE_INFINITY;
      // One that is under way was begun before now.
      await looking;
      while (!ended.signal.aborted) {
        const begun = await lookOnce();
        if (begun === 0 && underWay.size === 0) return;
        await Promise.race(underWay.values());
      }
    },
    async close() {
      clearInterval(timer);
      ended.abort();
      await looking;
      // What a provider answers is to be written down; what takes longer is of unknown outcome, as after a crash.
      await Promise.race([Promise.allSettled(underWay.values()), sleep(closeWithinMs, undefined, { ref: false })]);
      await lease.release();
    },
  };
}
