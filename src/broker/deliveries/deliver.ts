import { setTimeout as sleep } from "node:timers/promises";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { createWriteBehind } from "../../base/write-behind.ts";
import { type StoredForward, StoredForward_Address } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Attempt, Forward_State } from "../../gen/latchkey/v1/webhook_pb.ts";
import { StaleWrite, type Store } from "../../store/contract.ts";
import { createLeases, type Lease } from "../../store/leases.ts";
import type { StoredRecordOf } from "../../store/records.ts";
import type { Collections } from "../collections.ts";
import type { SigningSecrets } from "../setup/signing-secrets.ts";
import { attemptDelivery } from "./attempt.ts";
import { createDestinationQueues, type StartedDelivery } from "./delivery-queues.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardBodies } from "./forward-bodies.ts";
import type { Outbox, QueuedForward } from "./outbox.ts";
import { nextAttempt } from "./retry-schedule.ts";
import type { DeliveryVerdict } from "./verdict.ts";

/**
 * Sends what waits in the outbox. One replica does it for all: the order within a channel and the number under way to
 * a destination are then for one process to keep, and no forward needs a lease of its own.
 */
export interface Deliveries {
  /** From now on, and as soon as this replica has the lease. Resolves once it has asked for that. */
  start(): Promise<void>;
  configure(limits: DeliveryLimits): void;
  /** Since this process delivers. */
  lastDeliveredMs(environment: string, url: string): number | undefined;
  /** What is under way has a moment to end; the rest waits in the store. */
  close(): Promise<void>;
}

export interface DeliveryLimits {
  readonly perDestination: number;
  readonly timeoutMs: number;
}

interface DeliveriesOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly outbox: Outbox;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly secrets: SigningSecrets;
  /** To the environment's own addresses, which are the operator's word. */
  readonly sendToApplication: SendSmallRequest;
  /** To what came over the API: judged as any address of a provider is. */
  readonly send: SendSmallRequest;
  readonly limits: DeliveryLimits;
  readonly leaseMs?: number | undefined;
  readonly world: World;
}

const leaseName = "deliveries";
const defaultLeaseMs = 15_000;
const lookEveryMs = 1_000;
/** Often enough that one renewal may fail. */
const renewalsPerLease = 3;
const closeWithinMs = 5_000;
const storeRetryMs = 500;
const troubleMs = 2_000;
/**
 * Of a lease: who takes over from one that did not say so waits for so long. After an outage of the store, that one
 * writes down what it delivered meanwhile, which would be delivered twice otherwise.
 */
const handOverShare = 0.2;
/**
 * Receiving comes first: what waits is safe, and a provider that is kept waiting gives up. As many in a turn as a commit
 * should have to share: with 4 a delivery takes a quarter more CPU, and with more no less.
 */
const mostInTurn = 16;
/** Half a millisecond of the loop's time, with all that comes from them. */
const fewInTurn = 4;
/** Over all destinations. */
const mostUnderWay = 1_024;
const keptAttempts = 20;
const rememberedUrls = 1_000;

/** What an attempt changes of a forward. */
type ForwardUpdate = Partial<StoredForward>;

export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { store, collections, outbox, destinations, bodies, secrets, sendToApplication, send, world } = options;
  const { forwards } = collections;
  const { metrics, log } = world;
  const { leaseMs = defaultLeaseMs } = options;
  let { limits } = options;
  const leases = createLeases(store);
  const pace = createWriteBehind({ begin: beginNext, most: mostInTurn, few: fewInTurn });
  const lines = createDestinationQueues({
    perLine: () => limits.perDestination,
    most: mostUnderWay,
    isHeld: (destination) => destinations.isPaused(destination),
  });
  /** Nothing more is begun. */
  let isClosing = false;
  /** What is under way is broken off. */
  const cut = new AbortController();
  /** How many are under way, and whoever waits until none is. */
  let carrying = 0;
  let onEnded: (() => void) | undefined;
  const delivered = new LRUCache<string, number>({ max: rememberedUrls });
  let lease: Lease | undefined;
  let leaseTouchedAt = 0;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let beginsAt = 0;

  const mayBegin = () => !isClosing && lease !== undefined && lease.remainingMs() > 0 && performance.now() >= beginsAt;

  outbox.listen({
    onWaiting(waiting) {
      // Of one that does not deliver, the lines would only grow.
      if (lease === undefined) return;
      lines.put(waiting, world.now());
      pace.soon();
    },
    onGone: (waiting) => lines.remove(waiting),
  });
  destinations.onChange(() => {
    lines.look();
    pace.soon();
  });

  /** False: nothing is due, or there is no room for it. */
  function beginNext(): boolean {
    const begun = mayBegin() ? lines.next(world.now()) : undefined;
    if (begun === undefined) return false;
    carrying += 1;
    void carry(begun)
      .catch(async (err: unknown) => {
        if (cut.signal.aborted) return false;
        log.error("a forward could not be carried, and will be tried again", { err });
        // Not at once: what it met will be there still.
        await sleep(troubleMs, undefined, { signal: cut.signal }).catch(() => {});
        return false;
      })
      .then((wentWell) => {
        lines.ended(begun, wentWell);
        carrying -= 1;
        if (carrying === 0) onEnded?.();
        pace.soon();
      });
    return true;
  }

  /** Whether the destination took it. */
  async function carry({ waiting }: StartedDelivery): Promise<boolean> {
    // Another replica may have delivered it a moment ago, and the row that is kept not say so yet.
    await store.caughtUp();
    const row = rowOf(waiting) ?? (await forwards.get(waiting.environment, waiting.id));
    if (row === undefined || row.value.state !== Forward_State.PENDING) return true;
    const { value } = row;
    const url = destinations.urlOf(value);
    if (url === "") {
      await settle(row, { state: Forward_State.NO_DESTINATION, stateReason: "no_forward_url" });
      return true;
    }
    const tried = await attemptDelivery({
      id: value.id,
      url,
      body: await bodies.of(value),
      secrets: await secrets.of(value.environment),
      number: value.attemptCount + 1,
      send: value.address === StoredForward_Address.OVERRIDE ? send : sendToApplication,
      timeoutMs: limits.timeoutMs,
      signal: cut.signal,
      world,
    });
    if (tried === undefined) return false;
    const { attempt, verdict } = tried;
    metrics.deliveryAttempts.series({ outcome: verdict.kind }).add();
    if (verdict.kind === "gone") await pause(value.environment, url);
    await settle(row, triedAs(value, attempt, verdict));
    if (verdict.kind === "delivered") bodies.delivered(value);
    if (verdict.kind === "delivered" && value.createdAt !== undefined) {
      delivered.set(`${value.environment}\0${url}`, world.now());
      metrics.deliverySeconds.series({}).observe(Math.max(0, world.now() - timestampMs(value.createdAt)) / 1_000);
    }
    return verdict.kind === "delivered";
  }

  /** Without a look into the store. */
  function rowOf(waiting: QueuedForward): StoredRecordOf<StoredForward> | undefined {
    const row = outbox.rowOf(waiting);
    const value = row && forwards.read(row.change, row.revision)?.value;
    return row && value && { value, revision: row.revision, bytes: row.change.value?.length ?? 0 };
  }

  async function pause(environment: string, url: string): Promise<void> {
    await stubbornly(() => destinations.pause({ environment, url }, "gone"));
    metrics.destinationsPaused.inc();
    log.error("the application answered 410: nothing more is sent there until somebody resumes it", { environment });
  }

  function triedAs(value: StoredForward, attempt: Attempt, verdict: DeliveryVerdict): ForwardUpdate {
    const nowMs = world.now();
    const tried = { attemptCount: attempt.number, attempts: [...value.attempts, attempt].slice(-keptAttempts) };
    if (verdict.kind === "delivered") return { ...tried, state: Forward_State.DELIVERED, stateReason: "" };
    if (verdict.kind === "impossible") return { ...tried, ...dead(value, verdict.reason) };
    // Its place in the schedule is kept for when the destination is resumed.
    if (verdict.kind === "gone") return { ...tried, stateReason: "gone", nextAttemptAt: timestampFromMs(nowMs) };
    const next = nextAttempt({
      step: value.scheduleStep,
      forMs: value.scheduledFor === undefined ? 0 : timestampMs(value.scheduledFor),
      nowMs,
      retryAfterMs: verdict.retryAfterMs,
      random: Math.random(),
    });
    if (next === undefined) return { ...tried, ...dead(value, verdict.reason) };
    return {
      ...tried,
      stateReason: verdict.reason,
      scheduleStep: next.step,
      scheduledFor: timestampFromMs(next.forMs),
      nextAttemptAt: timestampFromMs(next.dueMs),
    };
  }

  function dead({ environment, integration, id: forward }: StoredForward, reason: string): ForwardUpdate {
    metrics.deadLetters.inc();
    log.warn("a forward is given up; it can be replayed", { environment, integration, forward, reason });
    return { state: Forward_State.DEAD, stateReason: reason };
  }

  /**
   * What was tried is written down, however long the store needs: sent again it would be only because of that. That it
   * was delivered is so whoever delivers by now; what follows from a failure is for that one to say.
   */
  async function settle(before: StoredRecordOf<StoredForward>, outcome: ForwardUpdate): Promise<void> {
    const after = settled(before.value, outcome, world.now());
    await stubbornly(async () => {
      // Not the one that it was begun under: that may have run out while the store took no writes.
      const held = lease;
      const conditions = after.state === Forward_State.DELIVERED ? [] : held && [held.fence];
      if (conditions === undefined) return;
      try {
        await store.commit(forwards.change({ before, after }), conditions);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        // It was replayed or purged meanwhile, or another replica has taken over: that one's word counts.
        outbox.forgetRow(before.value);
        const [fence] = conditions;
        if (fence !== undefined && "key" in fence && error.key === fence.key && lease === held) become(undefined);
      }
    });
  }

  async function stubbornly(act: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await act();
        return;
      } catch (error) {
        if (cut.signal.aborted) throw error;
        log.warn("what came of a forward is not written down yet", { err: error });
        await sleep(storeRetryMs, undefined, { signal: cut.signal });
      }
    }
  }

  async function look(): Promise<void> {
    try {
      await hold();
    } catch (err) {
      if (!isClosing) log.warn("who delivers could not be settled, and will be", { err });
    }
    metrics.outboxOldest.set(ageOf(outbox.oldestMs()));
    pace.soon();
  }

  async function hold(): Promise<void> {
    if (lease !== undefined && lease.remainingMs() > 0) {
      if (performance.now() - leaseTouchedAt < leaseMs / renewalsPerLease) return;
      leaseTouchedAt = performance.now();
      const held = lease;
      await held.renew().catch((error: unknown) => {
        if (held.remainingMs() === 0 && lease === held) become(undefined);
        throw error;
      });
      return;
    }
    const taken = await leases.take(leaseName, leaseMs);
    leaseTouchedAt = performance.now();
    // Whose own it was knows what it has begun.
    if (taken?.ranOut && lease === undefined) {
      beginsAt = leaseTouchedAt + leaseMs * handOverShare;
      setTimeout(pace.soon, leaseMs * handOverShare).unref();
    }
    become(taken);
  }

  function become(held: Lease | undefined): void {
    metrics.delivering.set(held === undefined ? 0 : 1);
    const isOurs = lease !== undefined;
    lease = held;
    if (isOurs === (held !== undefined)) return;
    if (held === undefined) {
      lines.clear();
      return;
    }
    // The oldest first, so that each is entered at the end of its lane.
    const all = [...outbox.all()].sort((a, b) => a.createdMs - b.createdMs);
    for (const waiting of all) lines.put(waiting, world.now());
  }

  const ageOf = (sinceMs: number | undefined) =>
    sinceMs === undefined ? 0 : Math.max(0, world.now() - sinceMs) / 1_000;

  function lookSoon(): Promise<void> {
    looking ??= look().finally(() => {
      looking = undefined;
    });
    return looking;
  }

  return {
    start() {
      // Times of the wall clock are looked at often, rather than waited for: it may be set.
      timer ??= setInterval(() => void lookSoon(), lookEveryMs).unref();
      return lookSoon();
    },
    configure(wanted) {
      limits = wanted;
      lines.look();
    },
    lastDeliveredMs: (environment, url) => delivered.get(`${environment}\0${url}`),
    async close() {
      isClosing = true;
      clearInterval(timer);
      pace.close();
      await looking;
      const ended = new Promise<void>((resolve) => {
        onEnded = resolve;
        if (carrying === 0) resolve();
      });
      await Promise.race([ended, sleep(closeWithinMs, undefined, { ref: false })]);
      cut.abort();
      await ended;
      await lease?.release().catch(() => {
        /* It runs out by itself. */
      });
    },
  };
}

/** What is undefined is not set, to whatever encodes it; to take it out of a copy costs as much as to encode the rest. */
const notDue = { nextAttemptAt: undefined, scheduledFor: undefined } as unknown as ForwardUpdate;

/** Only what waits has a time at which it is due. */
function settled(value: StoredForward, outcome: ForwardUpdate, nowMs: number): StoredForward {
  const isWaiting = (outcome.state ?? value.state) === Forward_State.PENDING;
  return { ...value, ...outcome, ...(!isWaiting && notDue), updatedAt: timestampFromMs(nowMs) };
}
