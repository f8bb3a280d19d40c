import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Backend, type Commit, StaleWrite, StoreUnavailable } from "../../../src/store/contract.ts";
import { follow } from "../../../src/store/follow.ts";
import { firstCommitFunction } from "../../../src/store/postgres/functions/commit-function.ts";
import {
  contentsOf,
  everything,
  openReplica,
  postgresForFile,
  put,
  recordingWatcher,
  remove,
} from "../../support/postgres/stores.ts";
import { openWire } from "../../support/postgres/wire.ts";
import { type Stopwatch, startStopwatch } from "../../support/runner/stopwatch.ts";
import { lacks } from "../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("replicas that share a store", () => {
  const file = postgresForFile();
  const never = 3_600_000;

  /** Commits something as a replica would that rings no bell. */
  async function commitUnheard(schema: string, changes: Readonly<Record<string, string | null>>): Promise<void> {
    const rows = Object.entries(changes).map(([key, value]) => [
      Buffer.from(key),
      value === null ? null : Buffer.from(value),
    ]);
    for (const [key, value] of rows) {
      await file.server.query(
        `with head as (update ${schema}.head set revision = revision + 1 returning revision)
        insert into ${schema}.entry select $1, $2, revision from head
        on conflict (key) do update set value = excluded.value, revision = excluded.revision`,
        [key, value],
      );
    }
  }

  /** Stops NOTIFY until the replicas notice and reconnect, half a second later. */
  const silenceBells = () =>
    file.server.query("select pg_terminate_backend(pid) from pg_stat_activity where query ~ '^listen |[p]g_notify'");

  it("puts the commits of all into one order, and each sees all that remain", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 3 }, () => file.open({ schema })));
    const watched = await Promise.all(
      replicas.map(async ({ store }) => {
        const state = {
          revision: 0,
          own: new Map<number, number>(),
          memory: new Map<string, string>(),
          isOrdered: true,
        };
        await store.watch(0, {
          onCommit({ revision, changes }: Commit) {
            state.isOrdered &&= revision > state.revision;
            state.revision = revision;
            state.own.set(revision, changes.length);
            for (const { key, value } of changes) {
              if (value === undefined) state.memory.delete(key);
              else state.memory.set(key, Buffer.from(value).toString());
            }
          },
          onLost: () => expect.unreachable("nothing was lost"),
        });
        return state;
      }),
    );
    const revisions: number[] = [];
    await Promise.all(
      replicas.flatMap(({ store }, replica) =>
        Array.from({ length: 8 }, async (_, caller) => {
          for (let i = 0; i < 40; i += 1) {
            const own = `own/${replica}/${caller}/${i % 5}`;
            const shared = `shared/${(i * 7 + caller) % 11}`;
            const change = i % 4 === 3 ? remove(own) : put(own, `${i}`);
            const revision = await store.commit([
              change,
              i % 5 === 4 ? remove(shared) : put(shared, `${replica}.${i}`),
            ]);
            revisions.push(revision);
            // A replica sees every own commit, before the commit resolves.
            expect(watched[replica]?.own.get(revision)).toBe(2);
          }
        }),
      ),
    );
    expect(revisions.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 960 }, (_, i) => i + 1));
    for (const [i, { store }] of replicas.entries()) {
      const state = watched[i];
      while ((state?.revision ?? 0) < 960) await sleep(5);
      const memory = [...(state?.memory ?? [])].map(([key, value]) => `${key}=${value}`).toSorted();
      expect(memory).toEqual((await contentsOf(store)).toSorted());
      expect(state?.isOrdered).toBe(true);
    }
  });

  it("loses none of the increments of six that race", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 6 }, () => file.open({ schema })));
    const increment = async (store: Backend): Promise<void> => {
      const entry = await store.get("counter");
      const next = Number(entry === undefined ? 0 : Buffer.from(entry.value)) + 1;
      try {
        await store.commit([put("counter", `${next}`, entry?.revision ?? 0)]);
      } catch (error) {
        if (!(error instanceof StaleWrite)) throw error;
        await increment(store);
      }
    };
    await Promise.all(
      replicas.map(async ({ store }) => {
        for (let i = 0; i < 15; i += 1) await increment(store);
      }),
    );
    expect(await contentsOf(replicas[0]?.store ?? expect.unreachable())).toEqual(["counter=90"]);
  });

  it("notifies the other replica of a commit at once, by NOTIFY", async () => {
    const schema = file.newSchema();
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema, timing: { pollEveryMs: never } })]);
    const { told, ...watcher } = recordingWatcher();
    await b.store.watch(0, watcher);
    await hasEars(schema);
    await a.store.commit([put("k", "1")]);
    await a.store.commit([remove("k"), put("l", "1")]);
    // No poll would ever report it.
    await expect.poll(() => told.join(), { interval: 5, timeout: 20_000 }).toContain("2:k=gone,l=1");
  });

  /** A replica that was just opened may not listen yet. */
  async function hasEars(schema: string): Promise<void> {
    const [{ store_id: id }] = await file.server.query(`select store_id from ${schema}.head`);
    const listening = `listen latchkey_${id.replaceAll("-", "")}`;
    while ((await file.server.query("select from pg_stat_activity where query = $1", [listening])).length < 2)
      await sleep(10);
  }

  it("announces no renewals, of which there are many from an idle fleet", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema });
    const rung: string[] = [];
    const [{ store_id: id }] = await file.server.query(`select store_id from ${schema}.head`);
    const ear = new Client(file.server.storeUrl(schema).replace(/\?.*/, ""));
    await ear.connect();
    onTestFinished(() => ear.end());
    ear.on("notification", ({ payload = "" }) => void rung.push(payload));
    await ear.query(`listen latchkey_${id.replaceAll("-", "")}`);
    const renew = () => store.commit([put("lease-term\0held", "1"), put("member\0a", "1")]);
    await renew();
    await expect.poll(() => rung).toEqual(["1"]);
    for (let i = 0; i < 5; i += 1) await renew();
    await store.commit([put("lease-term\0held", "5"), put("lease\0held", "a")]);
    await expect.poll(() => rung).toContain("7");
    await renew();
    await store.commit([remove("member\0a")]);
    await expect.poll(() => rung).toContain("9");
    expect(rung).toEqual(["1", "7", "9"]);
  });

  it("notifies the other replica in order and within a second without NOTIFY", async () => {
    const schema = file.newSchema();
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema })]);
    const committed = new Map<number, Stopwatch>();
    const delays: number[] = [];
    const revisions: number[] = [];
    await b.store.watch(0, {
      onCommit({ revision }) {
        revisions.push(revision);
        delays.push(committed.get(revision)?.ms ?? Number.NaN);
      },
      onLost: () => expect.unreachable("nothing was lost"),
    });
    for (let i = 0; i < 12; i += 1) {
      await silenceBells();
      committed.set(i + 1, startStopwatch());
      await a.store.commit([put(`k${i}`, "1")]);
      await sleep(100);
    }
    while (revisions.length < 12) await sleep(5);
    expect(revisions).toEqual(Array.from({ length: 12 }, (_, i) => i + 1));
    expect(Math.max(...delays)).toBeLessThan(10_000);
    // The poll and not NOTIFY must have reported it, or this test proves nothing.
    expect(Math.max(...delays)).toBeGreaterThan(100);
  });

  it("reports others' commits before its own later one", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    const { told, ...watcher } = recordingWatcher();
    await store.watch(0, watcher);
    await commitUnheard(schema, { a: "1", b: "1" });
    await commitUnheard(schema, { b: "2", gone: null });
    await store.commit([put("own", "1"), put("a", "2")]);
    // Values replaced since then may be missing.
    expect(told).toEqual(["3:b=2", "4:gone=gone", "5:own=1,a=2"]);
  });

  it("reads on in pieces when much was committed elsewhere, and splits no commit", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    await file.server.query(
      `insert into ${schema}.entry select convert_to('k' || n, 'UTF8'), 'v', 1 + n / 700 from generate_series(0, 4199) as n;
      update ${schema}.head set revision = 6`,
    );
    const sizes: string[] = [];
    await store.watch(0, {
      onCommit: ({ revision, changes }) => void sizes.push(`${revision}:${changes.length}`),
      onLost() {},
    });
    expect(await store.commit([put("own", "1")])).toBe(7);
    expect(sizes).toEqual(["1:700", "2:700", "3:700", "4:700", "5:700", "6:700", "7:1"]);
  });

  it("knows the store's revision although the last commit left nothing", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: 50 } });
    await file.server.query(`update ${schema}.head set revision = 3`);
    while (store.status().revision < 3) await sleep(5);
    expect(await store.commit([put("own", "1")])).toBe(4);
  });

  it("watches from a revision that it has not seen yet", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    await commitUnheard(schema, { a: "1", b: "1" });
    const { told, ...watcher } = recordingWatcher();
    await store.watch(2, watcher);
    await store.commit([put("c", "1")]);
    expect(told).toEqual(["3:c=1"]);
  });

  it("is caught up only after its watchers with a gap have read everything again", async () => {
    const schema = file.newSchema();
    const deaf = { pollEveryMs: never, pruneEveryMs: never, answerWithinMs: 500 };
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema, timing: deaf })]);
    await a.store.commit([put("goes", "1")]);
    await b.store.caughtUp();
    let { promise: mayRead, resolve: letRead } = Promise.withResolvers<void>();
    letRead();
    let memory: string[] = [];
    const followed = await follow({
      store: b.store,
      world: { now: Date.now, log: silent, metrics: b.metrics },
      spaces: [],
      async read() {
        await mayRead;
        const found = await contentsOf(b.store);
        return () => {
          memory = found;
        };
      },
      onCommit: () => {},
    });
    onTestFinished(() => followed.close());
    expect(memory).toEqual(["goes=1"]);
    ({ promise: mayRead, resolve: letRead } = Promise.withResolvers<void>());
    // Before the commit: a replica whose bell was silenced connects again, and might read the commit at once.
    await file.server.query(`update ${schema}.head set pruned = revision + 1`);
    await silenceBells();
    await a.store.commit([remove("goes"), put("comes", "1")]);
    await expect(b.store.caughtUp()).rejects.toBeInstanceOf(StoreUnavailable);
    const caughtUp = b.store.caughtUp();
    letRead();
    await caughtUp;
    expect(memory).toEqual(["comes=1"]);
  });

  it("cannot be caught up while the server is away, and reports that in time", async () => {
    const schema = file.newSchema();
    const wire = await openWire(file.server.port);
    onTestFinished(() => wire.close());
    const url = file.server.storeUrl(schema, { port: `${wire.port}` });
    const { store } = await openReplica({ url, timing: { answerWithinMs: 300 } });
    await store.caughtUp();
    wire.freeze();
    const elapsed = startStopwatch();
    await expect(store.caughtUp()).rejects.toBeInstanceOf(StoreUnavailable);
    expect(elapsed.ms).toBeLessThan(10_000);
    wire.mend();
    await expect.poll(() => store.caughtUp()?.then(() => "caught up")).toBe("caught up");
  });

  it("S15 reads everything again after a cut longer than deletions are kept", async () => {
    const schema = file.newSchema();
    const wire = await openWire(file.server.port);
    onTestFinished(() => wire.close());
    const pruning = { pruneEveryMs: 100, pruneAfterMs: 200 };
    const { store } = await file.open({ schema, timing: pruning });
    const away = await openReplica({
      url: file.server.storeUrl(schema, { port: `${wire.port}` }),
      timing: { pruneEveryMs: never, pollEveryMs: 50 },
    });
    await store.commit([put("stays", "1"), put("goes", "1")]);
    let memory = new Map<string, string>();
    let reads = 0;
    const followed = await follow({
      store: away.store,
      world: { now: Date.now, log: silent, metrics: away.metrics },
      spaces: ["goes", "stays", "comes"],
      async read() {
        const entries = await away.store.list(everything);
        return () => {
          reads += 1;
          memory = new Map(entries.map(({ key, value }) => [key, `${Buffer.from(value)}`]));
        };
      },
      onCommit({ changes }) {
        for (const { key, value } of changes) {
          if (value === undefined) memory.delete(key);
          else memory.set(key, `${Buffer.from(value)}`);
        }
      },
    });
    onTestFinished(() => followed.close());
    expect([...memory.keys()]).toEqual(["goes", "stays"]);
    wire.cut();
    await store.commit([remove("goes"), put("comes", "1")]);
    for (let i = 0; i < 20; i += 1) await store.commit([put("stays", `${i}`)]);
    while ((await file.server.query(`select from ${schema}.entry where value is null`)).length > 0) await sleep(20);
    wire.mend();
    const matches = async () => {
      const held = [...memory].map(([key, value]) => `${key}=${value}`).toSorted();
      return JSON.stringify(held) === JSON.stringify(await contentsOf(store));
    };
    while (!(await matches())) await sleep(20);
    expect(reads).toBe(2);
    expect([...memory.keys()].toSorted()).toEqual(["comes", "stays"]);
    // From then on it sees everything again.
    await store.commit([remove("comes")]);
    while (!(await matches())) await sleep(20);
    expect(reads).toBe(2);
  });

  it("misses nothing after a shorter cut", async () => {
    const schema = file.newSchema();
    const wire = await openWire(file.server.port);
    onTestFinished(() => wire.close());
    const { store } = await file.open({ schema, timing: { pruneEveryMs: 50, pruneAfterMs: never } });
    const away = await openReplica({ url: file.server.storeUrl(schema, { port: `${wire.port}` }) });
    await store.commit([put("goes", "1")]);
    const watcher = recordingWatcher();
    await away.store.watch(0, watcher);
    wire.cut();
    await store.commit([remove("goes")]);
    await store.commit([put("comes", "1")]);
    await sleep(200);
    wire.mend();
    while (!watcher.told.includes("3:comes=1")) await sleep(10);
    expect(watcher.told.slice(-2)).toEqual(["2:goes=gone", "3:comes=1"]);
    expect(watcher.isLost()).toBe(false);
  });

  it("removes deleted keys, and none that were put again in the meantime", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pruneEveryMs: 100, pruneAfterMs: 150 } });
    const keys = Array.from({ length: 2_500 }, (_, i) => `k${i}`);
    await store.commit(keys.map((key) => put(key, "1")));
    await store.commit(keys.map(remove));
    const churning = (async () => {
      for (let i = 0; i < 200; i += 1) await store.commit([put(`k${i}`, "2", 0)]);
    })();
    await churning;
    while ((await file.server.query(`select from ${schema}.entry where value is null`)).length > 0) await sleep(20);
    expect(await contentsOf(store)).toHaveLength(200);
  });

  it("reports lost history to watchers when another server lacks acknowledged commits", async () => {
    const schema = file.newSchema();
    const { store, logged } = await file.open({ schema, timing: { pollEveryMs: 100 } });
    await store.commit([put("a", "1")]);
    await store.commit([put("b", "1")]);
    const watcher = recordingWatcher();
    await store.watch(0, watcher);
    await file.server.query(`delete from ${schema}.entry where revision > 1; update ${schema}.head set revision = 1`);
    while (!watcher.isLost()) await sleep(10);
    expect(store.status().revision).toBe(1);
    expect(logged.filter((line) => line.includes('"level":"error"')).join()).toContain("lack the last commits");
    expect(await store.commit([put("c", "1")])).toBe(2);
  });

  /** Acts like a server that was restored to an older state and has been written to since. */
  async function rewriteHistory(schema: string, from: number): Promise<void> {
    await file.server.query(
      `delete from ${schema}.entry where revision >= ${from};
      update ${schema}.mark set value = value + 1 where revision >= ${from};
      insert into ${schema}.entry select 'other', 'x', revision from ${schema}.head`,
    );
  }

  /** A replica that learns of changes only by polling, and another that writes past its state. */
  async function behind() {
    const schema = file.newSchema();
    const { store, logged } = await file.open({ schema, timing: { pollEveryMs: never, pruneEveryMs: never } });
    await store.commit([put("a", "1")]);
    await store.commit([put("b", "1")]);
    const watcher = recordingWatcher();
    await store.watch(2, watcher);
    await rewriteHistory(schema, 2);
    await file.server.query(`update ${schema}.head set revision = 5;
      insert into ${schema}.mark values (5, 7)`);
    return { schema, store, watcher, logged };
  }

  it("notices lost commits though others have committed past them, by asking whether it is caught up", async () => {
    const { store, watcher, logged } = await behind();
    await store.caughtUp();
    expect(watcher.isLost()).toBe(true);
    expect(store.status()).toMatchObject({ revision: 5, lostUpTo: 2 });
    expect(logged.join("")).toContain("older state");
    expect(await store.commit([put("c", "1")])).toBe(6);
  });

  it("commits nothing on top of lost commits, and reports it to watchers", async () => {
    const { store, watcher } = await behind();
    await expect(store.commit([put("b", "2", 2)])).rejects.toBeInstanceOf(StoreUnavailable);
    expect(watcher.isLost()).toBe(true);
    expect(await store.commit([put("c", "1")])).toBe(6);
    expect(await contentsOf(store)).toEqual(["a=1", "c=1", "other=x"]);
  });

  it("notices lost commits whose numbers were all given again", async () => {
    const { schema, store, watcher } = await behind();
    await file.server.query(`update ${schema}.head set revision = 2; delete from ${schema}.mark where revision > 2`);
    await store.caughtUp();
    expect(watcher.isLost()).toBe(true);
  });

  it("reports to every replica from where no watch can resume, although it saw none of the lost commits", async () => {
    const { schema, store } = await behind();
    const fresh = await file.open({ schema, timing: { pollEveryMs: 50 } });
    expect(fresh.store.status().lostUpTo).toBe(0);
    await store.caughtUp();
    await expect.poll(() => fresh.store.status().lostUpTo).toBe(2);
  });

  it("adds marks to an older store, which an older latchkey can still use", async () => {
    const schema = file.newSchema();
    const old = await file.open({ schema });
    await old.store.commit([put("a", "1")]);
    await old.store.close();
    await file.server.query(
      `drop table ${schema}.mark, ${schema}.loss, ${schema}.ended_session;
      drop function ${schema}.commit_1; drop function ${schema}.commit_2; ${firstCommitFunction(schema)}`,
    );
    const { store } = await file.open({ schema, timing: { pollEveryMs: 50 } });
    expect(await store.commit([put("b", "1")])).toBe(2);
    // Commits like an older version, by its function.
    await file.server.query(
      `select * from ${schema}.commit_1(1, '{"\\\\x63"}', '{"\\\\x31"}', '{1}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 1e300)`,
    );
    while (store.status().revision < 3) await sleep(5);
    expect(await contentsOf(store)).toEqual(["a=1", "b=1", "c=1"]);
    expect(
      (await file.server.query(`select revision::int from ${schema}.mark order by 1`)).map((row) => row.revision),
    ).toEqual([1, 2, 3]);
    expect(await store.commit([put("d", "1")])).toBe(4);
  });

  it("drops marks that no replica needs, and never that of the last commit", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pruneEveryMs: 50, pruneAfterMs: 100, pollEveryMs: 50 } });
    for (let i = 0; i < 5; i += 1) await store.commit([put("a", `${i}`)]);
    const marks = async () =>
      (await file.server.query(`select revision::int from ${schema}.mark order by 1`)).map((row) => row.revision);
    await expect.poll(marks).toEqual([5]);
    const watcher = recordingWatcher();
    await store.watch(5, watcher);
    await store.caughtUp();
    expect(await store.commit([put("b", "1")])).toBe(6);
    expect(watcher.isLost()).toBe(false);
  });

  it("has noticed by its next commit, when the connection broke before it", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    await store.commit([put("a", "1")]);
    await store.commit([put("b", "1")]);
    const watcher = recordingWatcher();
    await store.watch(2, watcher);
    await file.server.query(`update ${schema}.head set revision = 1`);
    await file.server.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'",
    );
    await sleep(50);
    expect(await store.commit([put("c", "1")])).toBe(2);
    expect(watcher.isLost()).toBe(true);
  });

  it("takes no commits any more when another store has taken its place", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: 50 } });
    await store.commit([put("a", "1")]);
    await file.server.query(`update ${schema}.head set store_id = gen_random_uuid()`);
    while (store.status().writable) await sleep(10);
    expect(store.status().reason).toContain("another store");
    await expect(store.get("a")).rejects.toThrow("another store");
  });

  it("is retired for all of them at once", async () => {
    const schema = file.newSchema();
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema, timing: { pollEveryMs: never } })]);
    await silenceBells();
    await a.store.retire("level:elsewhere");
    await expect(b.store.commit([put("a", "1")])).rejects.toMatchObject({ name: "StoreUnavailable" });
    expect(b.store.status()).toMatchObject({ writable: false, reason: expect.stringContaining("level:elsewhere") });
  });

  it("has one clock for all", async () => {
    const schema = file.newSchema();
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema })]);
    const times = [await a.store.clock(), await b.store.clock(), await a.store.clock()];
    expect(times.toSorted((x, y) => x - y)).toEqual(times);
  });
});

const silent = { debug() {}, info() {}, warn() {}, error() {} };
