import { setTimeout as sleep } from "node:timers/promises";
import { sequentialId } from "../base/ids.ts";
import type { World } from "../base/world.ts";
import { nextDue, parseFrequency } from "../core/frequency.ts";
import { kindName } from "../core/run-ending.ts";
import type { Script, ScriptHost, SyncScript } from "../core/script.ts";
import { afterRun, again, asked, baseVariant, mayRestart, newSync, runOf } from "../core/sync-life.ts";
import type { StoredRun, StoredSync } from "../gen/latchkey/stored/v1/stored_pb.ts";
import { TriggerSyncRequest_Mode as Mode, Run_State, Script_Kind } from "../gen/latchkey/v1/sync_pb.ts";
import { type Change, type Condition, StaleWrite, type Store, StoreUnavailable } from "../store/contract.ts";
import { follow } from "../store/follow.ts";
import { createHeldLease } from "../store/held-lease.ts";
import { after, partsOf } from "../store/keys.ts";
import type { Lease } from "../store/leases.ts";
import { type Stored, transact } from "../store/records.ts";
import { type Collections, syncsDue } from "./collections.ts";
import type { Destinations } from "./destinations.ts";
import { Interruption, type RunExecution } from "./run-execution.ts";
import { createRunPace } from "./run-pace.ts";
import { createRunQueue, type Waiting } from "./run-queue.ts";
import type { Runs } from "./runs.ts";

/**
 * Has everything run that is due: one replica for all. What it does is written down by each move, so that it has no
 * memory to lose: what was running when its process ended is found by the next one.
 */
export interface RunKeeper {
  /** From now on, and as soon as this replica has the lease. */
  start(): void;
  /** All that is due now, and what that brings about, instead of within a second. */
  run(): Promise<void>;
  /** Waits for what is under way, for a while; then it is cut off, and begun anew by whoever comes next. */
  close(): Promise<void>;
}

export interface RunLimits {
  readonly atOnce: number;
  readonly atOncePerIntegration: number;
}

export const usualRunLimits: RunLimits = { atOnce: 16, atOncePerIntegration: 8 };

interface KeeperOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly scripts: ScriptHost;
  readonly runs: Runs;
  readonly execution: RunExecution;
  readonly destinations: Pick<Destinations, "environmentByName">;
  readonly limits: RunLimits;
  readonly leaseMs?: number | undefined;
  readonly world: World;
}

const usualLeaseMs = 15_000;
const lookEveryMs = 1_000;
const pageSize = 200;
/** Syncs that are put down together. */
const scheduledAtOnce = 25;
const troubleMs = 5_000;
/** Of a sync whose script is not there. */
const scriptAwayMs = 300_000;
/** Connections that are looked at, a stretch a minute, for syncs that they should have and have not. */
const walkEveryMs = 60_000;
const perWalk = 1_000;
const closeWithinMs = 2_000;

export async function openRunKeeper(options: KeeperOptions): Promise<RunKeeper> {
  const { store, collections, scripts, runs, execution, destinations, limits, world } = options;
  const { leaseMs = usualLeaseMs } = options;
  const { metrics, log } = world;
  const lease = createHeldLease({
    ...{ store, name: "runs", lengthMs: leaseMs },
    onTaken: takeOver,
    onLost() {
      // Whoever has it now takes what runs here for interrupted: it can write nothing more.
      for (const { stop } of underWay.values()) stop.abort(new Interruption());
    },
  });
  const queue = createRunQueue({ store, collections });
  const pace = createRunPace();
  const ended = new AbortController();
  /** By the run's id. */
  const underWay = new Map<
    string,
    { readonly lane: string; readonly stop: AbortController; readonly over: Promise<void> }
  >();
  const ofIntegration = new Map<string, number>();
  const busyLanes = new Set<string>();
  /** Lanes that rest for a while: what comes behind a run that could not be brought to its end waits for it. */
  const troubled = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<number> | undefined;
  let wantsLook = false;
  let isClosing = false;
  let isScheduleDue = true;
  let walkedAt = Number.NEGATIVE_INFINITY;
  let walkPosition: string | undefined;
  const unheard = scripts.onChange(() => {
    walkedAt = Number.NEGATIVE_INFINITY;
    walkPosition = undefined;
    metrics.scriptsBroken.set(scripts.broken().length);
    lookSoon();
  });
  metrics.scriptsBroken.set(scripts.broken().length);

  const watch = await follow({
    store,
    world,
    spaces: ["run", "run.queued"],
    read: async () => () => {
      forgetQueue();
      lookSoon();
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        if (!change.key.startsWith("run")) continue;
        const [space, , second = ""] = partsOf(change.key);
        // A value is opened when it is looked at.
        if (space === "run.queued" && change.value !== undefined) {
          queue.heard(change.key);
          isScheduleDue = true;
          lookSoon();
        }
        if (space === "run" && underWay.has(second)) heed(second, collections.runs.read(change, revision)?.value);
      }
    },
  });

  /** Somebody may want it to end. */
  function heed(id: string, found: StoredRun | undefined): void {
    if (found?.cancelling === true) underWay.get(id)?.stop.abort();
    // Another replica has taken it for interrupted, and may have begun it anew.
    else if (found !== undefined && runOf(found).state === Run_State.INTERRUPTED)
      underWay.get(id)?.stop.abort(new Interruption());
  }

  /** What runs by the store and not here, runs no more. */
  async function takeOver(held: Lease): Promise<void> {
    forgetQueue();
    // What was stopped here because somebody else had the lease is on its way out.
    await Promise.allSettled([...underWay.values()].flatMap(({ stop, over }) => (stop.signal.aborted ? [over] : [])));
    for (;;) {
      const page = await collections.runs.pageBy("running", { under: [], limit: pageSize });
      const left = page.filter(({ value }) => !underWay.has(runOf(value).id));
      for (const one of left) {
        await interrupted(one, held).catch((err: unknown) => {
          if (held.isLostBy(err)) throw err;
          untold(one, err);
        });
      }
      if (page.length < pageSize) return;
    }
  }

  /** One that cannot be brought to its end must not hold up all others. */
  function untold({ value }: Stored<StoredRun>, err: unknown): void {
    if (err instanceof StoreUnavailable) throw err;
    log.error("a run that was interrupted could not be told so", { run: runOf(value).id, err });
  }

  async function interrupted({ value }: Stored<StoredRun>, { fence }: Lease): Promise<void> {
    const { environment = "" } = runOf(value).connection ?? {};
    const decide = async () => {
      const before = await collections.runs.get(environment, runOf(value).id);
      if (before === undefined || runOf(before.value).state !== Run_State.RUNNING) return none;
      const state = before.value.cancelling ? Run_State.CANCELLED : Run_State.INTERRUPTED;
      const stopped: StoredRun = { ...before.value, run: { ...runOf(before.value), state } };
      const nowMs = world.now();
      const changes: Change[] = [...collections.runs.change({ before, after: stopped })];
      const sync = await syncOf(before.value);
      const left = goingOn(before.value, sync?.value);
      const restart = mayRestart(left)
        ? again(left, { id: sequentialId(nowMs), dueMs: nowMs, isFailure: false })
        : undefined;
      // One that waits already does what the interrupted one would have.
      const waiting = sync === undefined ? undefined : await runs.stored({ environment, id: sync.value.queuedId });
      const isWaiting = waiting !== undefined && runOf(waiting.value).state === Run_State.QUEUED;
      if (isWaiting && left.mode > waiting.value.mode) {
        changes.push(...collections.runs.change({ before: waiting, after: { ...waiting.value, mode: left.mode } }));
      }
      const next = restart !== undefined && !isWaiting ? restart : undefined;
      if (next !== undefined) changes.push(...runs.added(next, await runs.inputOf(before.value)));
      if (sync !== undefined) {
        const stands = afterRun(sync.value, runOf(stopped));
        const after = next === undefined ? stands : { ...stands, queuedId: runOf(next).id };
        changes.push(...collections.syncs.change({ before: sync, after }));
      }
      return { changes, result: state };
    };
    const { result } = await transact(store, decide, fence);
    if (result === undefined) return;
    const { script, kind } = runOf(value);
    metrics.runs.inc({ kind: kindName(kind), outcome: "interrupted" });
    log.warn("a run was interrupted by the end of its process", { script, run: runOf(value).id });
  }

  async function syncOf(run: StoredRun): Promise<Stored<StoredSync> | undefined> {
    const { kind, connection, script } = runOf(run);
    if (kind !== Script_Kind.SYNC || run.notificationId !== "" || connection === undefined) return undefined;
    const { environment, integration, id } = connection;
    return collections.syncs.get(environment, integration, id, script, run.variant);
  }

  /** Puts down the runs of syncs whose time has come, some in one commit: a wave of them is no reason to hold up others. */
  async function schedule(nowMs: number, { fence }: Lease): Promise<number> {
    let { from, to } = syncsDue(nowMs);
    let count = 0;
    isScheduleDue = false;
    while (!ended.signal.aborted) {
      const page = await store.list({ from, to, limit: scheduledAtOnce });
      const parts = page.map(({ key }) => partsOf(key).slice(-5));
      const decide = async () => {
        const found = await collections.syncs.getMany(parts);
        return {
          changes: found.flatMap((one) => (one === undefined ? [] : scheduled(one, nowMs))),
          result: undefined,
        };
      };
      await transact(store, decide, fence);
      count += page.length;
      const last = page.at(-1);
      if (last === undefined || page.length < scheduledAtOnce) return count;
      from = after(last.key);
    }
    return count;
  }

  function scheduled(before: Stored<StoredSync>, nowMs: number): Change[] {
    const { environment, integration, name, paused, dueMs: wasDueMs, queuedId } = before.value;
    if (paused || wasDueMs === 0 || wasDueMs > nowMs) return [];
    const everyMs = everyMsOf(before.value, scripts.find({ integration, kind: "sync", name }));
    // Its file is gone, for a moment perhaps: it is looked for again.
    if (everyMs === undefined) {
      return collections.syncs.change({ before, after: { ...before.value, dueMs: nowMs + scriptAwayMs } });
    }
    const dueMs = nextDue(nowMs, everyMs, wasDueMs);
    if (queuedId !== "") return collections.syncs.change({ before, after: { ...before.value, dueMs } });
    const environmentId = destinations.environmentByName(environment)?.id ?? "";
    const moved = asked(before.value, undefined, {
      ...{ id: sequentialId(nowMs), cause: "schedule", mode: Mode.INCREMENTAL, environmentId, nowMs },
    });
    return [...collections.syncs.change({ before, after: { ...moved.sync, dueMs } }), ...runs.added(moved.run)];
  }

  /** How many were put down or begun. */
  async function look(): Promise<number> {
    // Where there are no scripts nobody needs the lease, whose renewals are commits. What waits, waits for its script.
    const held = scripts.all().length === 0 ? undefined : await lease.hold();
    if (held === undefined) return 0;
    try {
      return await lookUnder(held);
    } catch (error) {
      if (!held.isLostBy(error)) throw error;
      lease.lost(held);
      return 0;
    }
  }

  async function lookUnder(held: Lease): Promise<number> {
    const nowMs = world.now();
    if (performance.now() - walkedAt > walkEveryMs) await walk(held);
    // Before anything begins: what is asked for and due at once is one run.
    const count = isScheduleDue ? await schedule(nowMs, held) : 0;
    return count + (await beginDue(nowMs, held));
  }

  async function beginDue(nowMs: number, held: Lease): Promise<number> {
    await queue.look(nowMs);
    metrics.runsOverdue.set(queue.overdueMs(nowMs) / 1_000);
    const until = performance.now() + lookEveryMs;
    for (let count = 0; ; count += 1) {
      const next = queue.take(mayBegin);
      if (next === undefined) return count;
      await pace.turn();
      // It lies where it lay, and is found again.
      if (isClosing) return count;
      begin(next, held);
      // However many wait: with each look the lease is looked after, and what has become due meanwhile put down.
      if (performance.now() < until) continue;
      lookSoon();
      return count + 1;
    }
  }

  function mayBegin({ id, lane, integration }: Waiting): boolean {
    return (
      underWay.size < limits.atOnce &&
      !underWay.has(id) &&
      !busyLanes.has(lane) &&
      (ofIntegration.get(integration) ?? 0) < limits.atOncePerIntegration &&
      (troubled.get(lane) ?? 0) <= performance.now()
    );
  }

  function begin({ environment, id, lane, integration }: Waiting, held: Lease): void {
    const stop = new AbortController();
    troubled.delete(lane);
    busyLanes.add(lane);
    ofIntegration.set(integration, (ofIntegration.get(integration) ?? 0) + 1);
    metrics.runsOpen.inc();
    const over = execution
      .execute({ environment, id }, { fence: held.fence, signal: AbortSignal.any([stop.signal, ended.signal]) })
      .catch((err: unknown) => {
        if (ended.signal.aborted) return;
        if (held.isLostBy(err)) return lease.lost(held);
        troubled.set(lane, performance.now() + troubleMs);
        // By the store it runs: whoever has the lease, and be it we, has to find it.
        lease.forget();
        log.error("a run was not brought to its end, and will be begun anew", { run: id, err });
      })
      .finally(() => {
        underWay.delete(id);
        busyLanes.delete(lane);
        const left = (ofIntegration.get(integration) ?? 1) - 1;
        if (left === 0) ofIntegration.delete(integration);
        else ofIntegration.set(integration, left);
        metrics.runsOpen.dec();
        lookSoon();
      });
    underWay.set(id, { lane, stop, over });
  }

  /** Connections that have no sync where a script says that they should: from before there was the script, say. */
  async function walk(held: Lease): Promise<void> {
    walkedAt = performance.now();
    const automatic = scripts.all().filter((one): one is SyncScript => one.kind === "sync" && one.autoStart);
    if (automatic.length === 0) return;
    const byIntegration = Map.groupBy(automatic, ({ integration }) => integration);
    const page = await collections.connections.page({ under: [], after: walkPosition, limit: perWalk });
    walkPosition = page.length < perWalk ? undefined : page.at(-1)?.position;
    const changes: Change[] = [];
    const conditions: Condition[] = [];
    for (const connection of page) {
      const { ref } = connection.value;
      if (ref === undefined) continue;
      const before = changes.length;
      const wanted = byIntegration.get(ref.integration) ?? [];
      const keys = wanted.map(({ name }) => [ref.environment, ref.integration, ref.id, name, baseVariant]);
      const found = keys.length === 0 ? [] : await collections.syncs.getMany(keys);
      for (const [i, script] of wanted.entries()) {
        const { name } = script;
        const sync = found[i];
        const nowMs = world.now();
        if (sync === undefined) {
          const after = newSync({ ref, name, variant: baseVariant, autoStart: true, nowMs });
          changes.push(...collections.syncs.change({ before: sync, after }));
        } else if (!sync.value.paused && isAstray(sync.value, script, nowMs)) {
          changes.push(...collections.syncs.change({ before: sync, after: { ...sync.value, dueMs: nowMs } }));
        }
      }
      // One that is deleted meanwhile must leave no sync behind.
      if (changes.length > before) conditions.push(collections.connections.unchanged(connection));
    }
    // A long way is gone at once after a change of the scripts, a stretch at a time.
    if (walkPosition !== undefined) walkedAt = performance.now() - walkEveryMs + lookEveryMs;
    if (changes.length === 0) return;
    await store.commit(changes, [...conditions, held.fence]).catch((error: unknown) => {
      // Somebody was first: the next walk sees.
      if (!(error instanceof StaleWrite) || held.isLostBy(error)) throw error;
    });
  }

  /** What is due is read anew. */
  function forgetQueue(): void {
    queue.forget();
    isScheduleDue = true;
  }

  function lookSoon(): void {
    if (timer === undefined || ended.signal.aborted) return;
    // What came while it was looking may have come too late for that look.
    if (looking !== undefined) wantsLook = true;
    else void lookOnce();
  }

  function lookOnce(): Promise<number> {
    looking ??= look()
      .catch((err: unknown) => {
        if (!ended.signal.aborted) log.warn("what is due of scripts could not be looked at, and will be", { err });
        return 0;
      })
      .finally(() => {
        looking = undefined;
        if (!wantsLook) return;
        wantsLook = false;
        lookSoon();
      });
    return looking;
  }

  return {
    start() {
      // Times of the wall clock are looked at often, rather than waited for: it may be set.
      timer ??= setInterval(() => {
        isScheduleDue = true;
        lookSoon();
      }, lookEveryMs).unref();
      lookSoon();
    },
    async run() {
      walkedAt = Number.NEGATIVE_INFINITY;
      while (!ended.signal.aborted) {
        // A look that has begun would find nothing in a queue that is forgotten under it.
        while (looking !== undefined) await looking;
        forgetQueue();
        const count = await lookOnce();
        if (underWay.size > 0) await Promise.race([...underWay.values()].map(({ over }) => over));
        else if (count === 0) return;
      }
    },
    async close() {
      isClosing = true;
      unheard();
      clearInterval(timer);
      const over = () => Promise.allSettled([...underWay.values()].map((one) => one.over));
      timer = undefined;
      await looking;
      await Promise.race([over(), sleep(closeWithinMs, undefined, { ref: false })]);
      ended.abort(new Interruption());
      await over();
      watch.close();
      await lease.release();
    },
  };
}

const none = { changes: [], result: undefined };

/** One that has noted a checkpoint since it began anew goes on from there, and forgets nothing a second time. */
const goingOn = (run: StoredRun, sync: StoredSync | undefined): StoredRun =>
  sync?.checkpoint === undefined ? run : { ...run, mode: Mode.INCREMENTAL };

/** It rested until there was a script again, or a clock that was set back would have it wait for longer than ever. */
function isAstray(sync: StoredSync, script: SyncScript, nowMs: number): boolean {
  return sync.dueMs === 0 || sync.dueMs > nowMs + (everyMsOf(sync, script) ?? 0);
}

/** By its own frequency or its script's; undefined: there is no script. */
function everyMsOf({ frequency }: StoredSync, script: Script | undefined): number | undefined {
  if (script?.kind !== "sync") return undefined;
  const parsed = parseFrequency(frequency || script.frequency);
  return parsed.ok ? parsed.everyMs : undefined;
}
