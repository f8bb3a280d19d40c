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
import type { SigningSecrets } from "../setup/signing-secrets.ts";
import { attemptDelivery } from "./attempt.ts";
import { createDestinationQueues, type StartedDelivery } from "./delivery-queues.ts";
import type { Destinations } from "./destinations.ts";
import type { ForwardBodies } from "./forward-bodies.ts";
import type { Outbox, QueuedForward } from "./outbox.ts";
import { nextAttempt } from "./retry-schedule.ts";
import type { DeliveryVerdict } from "./verdict.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/**
 * Delivers the forwards of the outbox. One replica delivers for all: one process then keeps the order within a channel
 * and the limit of attempts per destination, and a forward needs no lease of its own.
 */
export interface Deliveries {
  /** Starts delivering, as soon as this replica has the lease. Resolves after the first try to take the lease. */
  start(): Promise<void>;
  configure(limits: DeliveryLimits): void;
  /** Returns the time of the last delivery to a URL since this process delivers. */
  lastDeliveredMs(environment: string, url: string): number | undefined;
  /** Stops. Running attempts get a moment to finish; other forwards wait in the store. */
  close(): Promise<void>;
}

export interface DeliveryLimits {
  readonly perDestination: number;
  readonly timeoutMs: number;
}

interface DeliveriesOptions {
  readonly store: Store;
  readonly collections: WebhookCollections;
  readonly outbox: Outbox;
  readonly destinations: Destinations;
  readonly bodies: ForwardBodies;
  readonly secrets: SigningSecrets;
  /** Sends to the environment's own addresses, which the operator configured and which are trusted. */
  readonly sendToApplication: SendSmallRequest;
  /** Sends to addresses that came over the API, with the same address checks as for a provider. */
  readonly send: SendSmallRequest;
  readonly limits: DeliveryLimits;
  readonly leaseMs?: number | undefined;
  readonly world: World;
}

const leaseName = "deliveries";
const defaultLeaseMs = 15_000;
const lookEveryMs = 1_000;
/** Renewals per lease: often enough that one renewal may fail. */
const renewalsPerLease = 3;
const closeWithinMs = 5_000;
const storeRetryMs = 500;
const troubleMs = 2_000;
/**
 * Share of the lease time that a replica waits after it takes over an expired lease. After a store outage, the previous
 * holder uses this time to record what it delivered in the meantime, which would otherwise be delivered twice.
 */
const handOverShare = 0.2;
/**
 * Limits the deliveries that start in one tick. Receiving webhooks has priority: waiting forwards are safe, but a
 * provider that waits too long gives up. 16 is enough to share one commit: with 4 a delivery takes a quarter more CPU,
 * and with more than 16 no less.
 */
const mostInTurn = 16;
/**
 * Limit of deliveries per tick under load: half a millisecond of the event loop, including the work that follows from
 * them.
 */
const fewInTurn = 4;
/** Limits the running attempts over all destinations. */
const mostUnderWay = 1_024;
const keptAttempts = 20;
const rememberedUrls = 1_000;

/** The fields of a forward that an attempt changes. */
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
  /** Set on close: no further attempt starts. */
  let isClosing = false;
  /** Aborts the running attempts. */
  const cut = new AbortController();
  /** Number of running attempts, and the callback for when none is left. */
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
      // Without the lease the queues would only grow.
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

  /** Starts the next attempt; false if none is due or there is no free slot. */
  function beginNext(): boolean {
    const begun = mayBegin() ? lines.next(world.now()) : undefined;
    if (begun === undefined) return false;
    carrying += 1;
    void carry(begun)
      .catch(async (err: unknown) => {
        if (cut.signal.aborted) return false;
        log.error("a forward could not be carried, and will be tried again", { err });
        // Wait before the retry, because the cause is probably still there.
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

  /** Makes one attempt; returns whether the destination accepted the forward. */
  async function carry({ waiting }: StartedDelivery): Promise<boolean> {
    // Another replica may have delivered this forward a moment ago, and the cached row may not show it yet.
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

  /** Returns the cached row, without reading the store. */
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
    // The position in the schedule is kept for when the destination is resumed.
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
   * Records the result of an attempt, retrying as long as the store needs: without the record the forward would be sent
   * again. A successful delivery is recorded whichever replica holds the lease now; a failure is recorded only under
   * our own lease.
   */
  async function settle(before: StoredRecordOf<StoredForward>, outcome: ForwardUpdate): Promise<void> {
    const after = settled(before.value, outcome, world.now());
    await stubbornly(async () => {
      // Use the current lease: the lease at the start of the attempt may have expired while the store took no writes.
      const held = lease;
      const conditions = after.state === Forward_State.DELIVERED ? [] : held && [held.fence];
      if (conditions === undefined) return;
      try {
        await store.commit(forwards.change({ before, after }), conditions);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        // The forward was replayed or purged in the meantime, or another replica took over: the stored state wins.
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
    // Skip the wait if the expired lease was our own: this process knows which attempts it started.
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
    // Add the oldest first, so that each forward is appended at the end of its lane.
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
      // Poll the wall clock instead of using long timers: the clock may be changed.
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
        /* The lease expires by itself. */
      });
    },
  };
}

/** Encoders treat undefined fields as not set. Removing them from a copy costs as much as encoding the rest. */
const notDue = { nextAttemptAt: undefined, scheduledFor: undefined } as unknown as ForwardUpdate;

/** Clears the due time of a forward that is no longer pending. */
function settled(value: StoredForward, outcome: ForwardUpdate, nowMs: number): StoredForward {
  const isWaiting = (outcome.state ?? value.state) === Forward_State.PENDING;
  return { ...value, ...outcome, ...(!isWaiting && notDue), updatedAt: timestampFromMs(nowMs) };
}
