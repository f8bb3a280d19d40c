/** A server that disappears, hangs, loses data, or is another one when it returns. */
import { closeSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Backend, type Snapshot, StaleWrite, StoreUnavailable } from "../../src/store/contract.ts";
import { startPooler } from "../support/postgres/pooler.ts";
import { handOver } from "../support/postgres/postgres.ts";
import {
  contentsOf,
  everything,
  openReplica,
  postgresForFile,
  put,
  recordingWatcher,
  remove,
} from "../support/postgres/stores.ts";
import { openWire } from "../support/postgres/wire.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { lacks } from "../support/sidecar/needs.ts";

/** A few seconds on a free machine: PostgreSQL's processes share a busy one. */
const recoverWithinMs = 20_000;

describe.skipIf(lacks("postgres"))("a PostgreSQL server", () => {
  const file = postgresForFile();
  const never = 3_600_000;

  async function openOverWire(timing = {}) {
    const schema = file.newSchema();
    const wire = await openWire(file.server.port);
    onTestFinished(() => wire.close());
    const replica = await openReplica({ url: file.server.storeUrl(schema, { port: `${wire.port}` }), timing });
    return { ...replica, schema, wire };
  }

  /** The time of the recovery. */
  async function recovers({ store }: { readonly store: Backend }): Promise<number> {
    const elapsed = startStopwatch();
    for (;;) {
      try {
        await store.commit([put("recovered", "1")]);
        return elapsed.ms;
      } catch (error) {
        expect(error).toBeInstanceOf(StoreUnavailable);
        await sleep(20);
      }
    }
  }

  /** Calls fail at once if the server is known not to answer. */
  async function refusesAtOnce(store: Backend): Promise<void> {
    for (;;) {
      const elapsed = startStopwatch();
      await expect(store.get("a")).rejects.toBeInstanceOf(StoreUnavailable);
      if (elapsed.ms < 100) return;
    }
  }

  it("loses nothing acknowledged when it is killed under load, and is used again within seconds", async () => {
    const schema = file.newSchema();
    // A setting of the role that does not apply to this store.
    await file.server.query("create role hasty login superuser; alter role hasty set synchronous_commit = off");
    const replicas = await Promise.all(
      Array.from({ length: 2 }, () => file.open({ schema, parameters: { user: "hasty" } })),
    );
    const acknowledged = new Map<string, number>();
    let isOver = false;
    const callers = replicas.flatMap(({ store }, replica) =>
      Array.from({ length: 8 }, async (_, caller) => {
        for (let i = 0; !isOver; i += 1) {
          const key = `${replica}/${caller}/${i}`;
          try {
            acknowledged.set(key, await store.commit([put(key, "v".repeat(400)), put("shared", key)]));
          } catch (error) {
            expect(error).toBeInstanceOf(StoreUnavailable);
            await sleep(10);
          }
        }
      }),
    );
    for (let round = 0; round < 2; round += 1) {
      const before = acknowledged.size;
      while (acknowledged.size <= before + 50) await sleep(20);
      await file.server.crash();
      await file.server.start();
      const delays = await Promise.all(replicas.map(recovers));
      expect(Math.max(...delays)).toBeLessThan(recoverWithinMs);
    }
    isOver = true;
    await Promise.all(callers);
    const found = new Map((await replicas[0]?.store.list(everything))?.map(({ key, revision }) => [key, revision]));
    expect([...acknowledged].filter(([key, revision]) => found.get(key) !== revision)).toEqual([]);
  });

  it("S16 is away: requests of the store fail at once, and it is used again within seconds", async () => {
    const { store, wire, metrics, logged } = await openOverWire();
    await store.commit([put("a", "1")]);
    wire.cut();
    await sleep(300);
    const elapsed = startStopwatch();
    const asked = await Promise.allSettled([
      ...Array.from({ length: 50 }, (_, i) => store.commit([put(`k${i}`, "1")])),
      ...[store.get("a"), store.list(everything), store.clock(), store.snapshot(), store.watch(99, recordingWatcher())],
    ]);
    expect(elapsed.ms).toBeLessThan(1_500);
    for (const outcome of asked) expect(outcome).toMatchObject({ reason: { name: "StoreUnavailable" } });
    expect(store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("127.0.0.1") });
    expect((await metrics.storeWritable.get()).values[0]?.value).toBe(0);
    await sleep(2_000);
    wire.mend();
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
    expect(store.status().writable).toBe(true);
    expect((await metrics.storeWritable.get()).values[0]?.value).toBe(1);
    expect(await contentsOf(store)).toEqual(["a=1", "recovered=1"]);
    // Logged once, and not twice a second.
    expect(logged.filter((line) => line.includes('"level":"error"'))).toHaveLength(1);
  });

  it("is silent: requests fail in time, and are not executed later", async () => {
    const timing = { answerWithinMs: 1_000, connectWithinMs: 1_000 };
    const { store } = await file.open({ schema: file.newSchema(), timing });
    await store.commit([put("a", "1")]);
    file.server.pause();
    onTestFinished(() => file.server.resume());
    const elapsed = startStopwatch();
    const asked = await Promise.allSettled([store.commit([put("late", "1")]), store.get("a"), store.list(everything)]);
    expect(elapsed.ms).toBeLessThan(2_500);
    for (const outcome of asked) expect(outcome).toMatchObject({ reason: { name: "StoreUnavailable" } });
    const late = store.commit([put("later", "1")]);
    await expect(late).rejects.toBeInstanceOf(StoreUnavailable);
    await refusesAtOnce(store);
    // By then the request's own deadline has passed.
    await sleep(1_000);
    file.server.resume();
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
    await sleep(300);
    expect(await contentsOf(store)).toEqual(["a=1", "recovered=1"]);
  });

  it("gets a timed-out commit late: it does not happen after newer commits", async () => {
    const { store, wire } = await openOverWire({ suspectAfterMs: 200, probeWithinMs: 300 });
    await store.commit([put("a", "first")]);
    wire.hold();
    await expect(store.commit([put("a", "given up")])).rejects.toBeInstanceOf(StoreUnavailable);
    wire.mend();
    await recovers({ store });
    await store.commit([put("a", "second")]);
    wire.deliver();
    await sleep(500);
    expect(await contentsOf(store)).toEqual(["a=second", "recovered=1"]);
  });

  it("is out of reach without a word: the store is closed all the same, and soon", async () => {
    const { store, wire } = await openOverWire();
    await store.commit([put("a", "1")]);
    wire.freeze();
    const reading = store.get("a");
    const refused = expect(reading).rejects.toBeInstanceOf(StoreUnavailable);
    const elapsed = startStopwatch();
    await store.close();
    expect(elapsed.ms).toBeLessThan(1_000);
    await refused;
  });

  it("commits although its answer is lost: watchers see the change", async () => {
    // If a poll lost its answer first, the commit would be refused before it is sent.
    const { store, wire } = await openOverWire({ pollEveryMs: 60_000 });
    await store.commit([put("a", "1")]);
    const watcher = recordingWatcher();
    await store.watch(1, watcher);
    wire.loseAnswers();
    await expect(store.commit([put("b", "1")])).rejects.toBeInstanceOf(StoreUnavailable);
    wire.mend();
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
    expect(watcher.told).toEqual(["2:b=1", "3:recovered=1"]);
    expect(watcher.isLost()).toBe(false);
  });

  it("closes connections: reads continue without errors, and commits soon", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, parameters: { application_name: schema } });
    await store.commit([put("a", "1")]);
    await Promise.all(Array.from({ length: 8 }, () => store.get("a")));
    const snapshot = await store.snapshot();
    const ending = (async () => {
      for (let i = 0; i < 10; i += 1) {
        await file.server.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", [
          schema,
        ]);
        await sleep(30);
      }
    })();
    let isOver = false;
    const reading = (async () => {
      while (!isOver) expect((await store.getMany(["a", "b"]))[0]?.revision).toBe(1);
    })();
    await Promise.all([
      ending.then(() => {
        isOver = true;
      }),
      reading,
    ]);
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
    await expect(keysOf(snapshot)).rejects.toBeInstanceOf(StoreUnavailable);
    await snapshot.close();
  });

  it("has a full disk: reads continue, and commits as soon as possible", async () => {
    const schema = file.newSchema();
    const { store, logged } = await file.open({ schema, timing: { pollEveryMs: 50 } });
    await store.commit([put("a", "1")]);
    await file.server.query(`
      create function ${schema}.full() returns trigger language plpgsql as
      $$ begin raise 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
      create trigger full_disk before insert or update on ${schema}.entry execute function ${schema}.full();
      create trigger full_disk before insert or update on ${schema}.head execute function ${schema}.full();`);
    await expect(store.commit([put("b", "1")])).rejects.toBeInstanceOf(StoreUnavailable);
    for (let i = 0; i < 10; i += 1) {
      await expect(store.commit([put("b", "1")])).rejects.toThrow(/No space left/);
      expect((await store.get("a"))?.revision).toBe(1);
      await sleep(30);
    }
    expect(store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("No space left") });
    expect(logged.filter((line) => line.includes('"level":"error"'))).toHaveLength(1);
    // One at a time: together they would wait for a commit that waits for them.
    await file.server.query(`drop trigger full_disk on ${schema}.entry`);
    await file.server.query(`drop trigger full_disk on ${schema}.head`);
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
  });

  it("waits for a lock on the store: the commit is refused, and nothing else suffers", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { answerWithinMs: 700 } });
    const { query } = file.server;
    const holding = query(`begin; select from ${schema}.head for update; select pg_sleep(60)`).catch(() => "ended");
    const holders = `select pid from pg_locks where relation = '${schema}.head'::regclass and mode = 'RowShareLock'`;
    await expect.poll(async () => (await query(holders)).length).toBe(1);
    const commit = store.commit([put("a", "1")]);
    await expect(commit).rejects.toBeInstanceOf(StoreUnavailable);
    await query(`select pg_terminate_backend(pid) from (${holders}) as holders`);
    expect(await holding).toBe("ended");
    await recovers({ store });
    // A request that timed out was not executed later.
    expect(await contentsOf(store)).toEqual(["recovered=1"]);
  });

  it("is a standby: waited for, at start too; another one once it was promoted", async () => {
    const schema = file.newSchema();
    const { server } = file;
    const { store, logged } = await file.open({ schema });
    await store.commit([put("a", "1")]);
    await store.commit([put("b", "1")]);
    const watcher = recordingWatcher();
    await store.watch(2, watcher);

    await server.shutDown();
    const signal = join(server.dataFolder, "standby.signal");
    writeFileSync(signal, "");
    handOver(signal);
    await server.start();
    while (!store.status().reason?.includes("standby")) await sleep(20);
    await expect(store.get("a")).rejects.toBeInstanceOf(StoreUnavailable);
    const opening = file.open({ schema });
    await expect(opening).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(opening).rejects.toThrow(/standby/);

    await server.query("select pg_promote()");
    rmSync(signal, { force: true });
    // As if the promoted server had lacked a commit, and others had continued on it.
    await server.query(`update ${schema}.head set revision = 4;
      update ${schema}.entry set revision = 3 where revision = 2`);
    expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
    expect(watcher.isLost()).toBe(true);
    expect(logged.join("")).toContain("replaced by another");
  });

  it("was replaced without traffic: noticed before the next commit", async () => {
    const schema = file.newSchema();
    const { server } = file;
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    await store.commit([put("a", "1")]);
    const watcher = recordingWatcher();
    await store.watch(1, watcher);
    await server.shutDown();
    const signal = join(server.dataFolder, "standby.signal");
    writeFileSync(signal, "");
    handOver(signal);
    await server.start();
    await server.query("select pg_promote()");
    expect(await store.commit([put("b", "1")])).toBe(2);
    expect(watcher.isLost()).toBe(true);
  });

  it("has a damaged page: a scrub names the entries that it can no longer read", async () => {
    const schema = file.newSchema();
    const { server } = file;
    const { store } = await file.open({ schema });
    await store.commit(Array.from({ length: 200 }, (_, i) => put(`k${String(i).padStart(3, "0")}`, "v".repeat(400))));
    await server.query("checkpoint");
    const [{ path }] = await server.query("select pg_relation_filepath($1) as path", [`${schema}.entry`]);
    await server.shutDown();
    const handle = openSync(join(server.dataFolder, path), "r+");
    writeSync(handle, Buffer.alloc(64, 0xa5), 0, 64, 8_192 * 2 + 512);
    closeSync(handle);
    await server.start();
    await recoversReading(store);
    const damaged: string[] = [];
    for await (const step of store.scrub()) damaged.push(...step.damaged);
    expect(damaged).toEqual([expect.stringMatching(/^what follows the key ".*": invalid page/)]);
  });

  async function recoversReading(store: Backend): Promise<void> {
    while (!store.status().writable) await sleep(20);
  }

  describe.skipIf(lacks("pgbouncer"))("behind PgBouncer, which lends its connections for a transaction each", () => {
    it("is shared all the same: one order, no lost increments, and events of others' commits", async () => {
      const pooler = await startPooler(file.server.port);
      const schema = file.newSchema();
      const open = () => openReplica({ url: file.server.storeUrl(schema, { port: `${pooler.port}` }) });
      const replicas = await Promise.all([open(), open(), open()]);
      const watcher = recordingWatcher();
      await replicas[0].store.watch(0, watcher);
      const increment = async (store: Backend): Promise<void> => {
        const entry = await store.get("counter");
        const next = Number(entry === undefined ? 0 : Buffer.from(entry.value)) + 1;
        await store.commit([put("counter", `${next}`, entry?.revision ?? 0)]).catch((error) => {
          if (!(error instanceof StaleWrite)) throw error;
          return increment(store);
        });
      };
      await Promise.all(
        replicas.map(async ({ store }) => {
          for (let i = 0; i < 15; i += 1) await increment(store);
        }),
      );
      expect(await contentsOf(replicas[1].store)).toEqual(["counter=45"]);
      await replicas[1].store.commit([remove("counter")]);
      await expect.poll(() => watcher.told.at(-1), { interval: 5 }).toBe("46:counter=gone");
      // Another client may own that connection by now and would receive the notifications.
      expect(await file.server.query("select from pg_stat_activity where query ilike 'listen%'")).toEqual([]);
      const snapshot = await replicas[2].store.snapshot();
      await replicas[1].store.commit([put("late", "1")]);
      expect(await keysOf(snapshot)).toEqual([]);
      await snapshot.close();
      expect(replicas[2].logged.join("")).toContain("behind a pooler");
    });

    it("is found again when PgBouncer was away", async () => {
      const pooler = await startPooler(file.server.port);
      const schema = file.newSchema();
      const { store } = await openReplica({ url: file.server.storeUrl(schema, { port: `${pooler.port}` }) });
      await store.commit([put("a", "1")]);
      await pooler.stop();
      await expect(store.commit([put("b", "1")])).rejects.toBeInstanceOf(StoreUnavailable);
      await startPooler(file.server.port, pooler.port);
      expect(await recovers({ store })).toBeLessThan(recoverWithinMs);
      expect(await contentsOf(store)).toEqual(["a=1", "recovered=1"]);
    });
  });
});

async function keysOf(snapshot: Snapshot): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of snapshot.pages()) keys.push(...page.map(({ key }) => key));
  return keys;
}
