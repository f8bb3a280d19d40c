import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../../src/base/log.ts";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { StoreRefused, StoreUnavailable } from "../../../../src/store/contract.ts";
import { openPostgresStore } from "../../../../src/store/postgres/postgres.ts";
import { freePort } from "../../../support/postgres/postgres.ts";
import { contentsOf, everything, openReplica, postgresForFile, put, remove } from "../../../support/postgres/stores.ts";
import { openWire } from "../../../support/postgres/wire.ts";
import { lacks } from "../../../support/sidecar/needs.ts";
import { carries } from "../above.ts";
import { conforms } from "../conformance.ts";

const log = createLog({ level: "error", format: "json", write: () => {} });

describe.skipIf(lacks("postgres"))("over PostgreSQL", () => {
  const file = postgresForFile();

  conforms("postgres", async () => {
    const schema = file.newSchema();
    return {
      open: () => openPostgresStore({ url: file.server.storeUrl(schema), log, metrics: createMetrics() }),
      clear: async () => void (await file.server.query(`drop schema ${schema} cascade`)),
    };
  });

  carries("postgres", async () => {
    const schema = file.newSchema();
    const open = () => openPostgresStore({ url: file.server.storeUrl(schema), log, metrics: createMetrics() });
    return {
      open,
      openAnother: open,
      clear: async () => void (await file.server.query(`drop schema ${schema} cascade`)),
    };
  });

  it("lists more than it reads at once, in order, both ways, up to the limit", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    const keys = Array.from({ length: 5_000 }, (_, i) => `k${String(i).padStart(4, "0")}`);
    // Every tenth is large: reads are limited by bytes too.
    await store.commit(keys.map((key, i) => put(key, "v".repeat(i % 10 === 0 ? 20_000 : 10))));
    const keysOf = async (range: object) =>
      (await store.list({ from: "k0001", to: "k4999", limit: Number.MAX_SAFE_INTEGER, ...range })).map(
        ({ key }) => key,
      );
    expect(await keysOf({})).toEqual(keys.slice(1, 4_999));
    expect(await keysOf({ reverse: true })).toEqual(keys.slice(1, 4_999).toReversed());
    expect(await keysOf({ limit: 3_000 })).toEqual(keys.slice(1, 3_001));
    expect(await keysOf({ limit: 3_000, reverse: true })).toEqual(keys.slice(1, 4_999).toReversed().slice(0, 3_000));
    expect(await keysOf({ limit: 0 })).toEqual([]);
  });

  it("times out on nothing because the process was busy: only time in which it could read counts", async () => {
    const timing = { answerWithinMs: 400, connectWithinMs: 400 };
    const { store } = await file.open({ schema: file.newSchema(), timing });
    await store.commit([put("a", "1")]);
    const busyFor = (ms: number) => {
      for (const until = performance.now() + ms; performance.now() < until; );
    };
    // With new connections, and with open ones.
    for (let round = 0; round < 3; round += 1) {
      const asked: Promise<unknown>[] = [store.clock(), store.commit([put("b", `${round}`)])];
      for (let i = 0; i < 50; i += 1) asked.push(store.get("a"), store.list(everything));
      for (let i = 0; i < 3; i += 1) {
        await sleep(1);
        busyFor(900);
      }
      const outcomes = await Promise.allSettled(asked);
      expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
    }
    expect(store.status().writable).toBe(true);
  });

  it("lists in pieces as of one moment", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    const keys = Array.from({ length: 6_000 }, (_, i) => `k${String(i).padStart(4, "0")}`);
    await store.commit(keys.map((key) => put(key, "0")));
    let isOver = false;
    const changing = (async () => {
      for (let round = 1; !isOver; round += 1) await store.commit([put("k0000", `${round}`), put("k5999", `${round}`)]);
    })();
    for (let i = 0; i < 5; i += 1) {
      const entries = await store.list(everything);
      expect(entries).toHaveLength(6_000);
      expect(entries.at(-1)?.revision).toBe(entries[0]?.revision);
    }
    isOver = true;
    await changing;
  });

  it("counts on without gaps when some of the commits that come together are refused", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    await store.commit([put("there", "1")]);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 90 }, (_, i) =>
        i % 3 === 1
          ? store.commit([put(`k${i}`, "1"), put(`l${i}`, "1")], [{ key: "there", expect: 0 }])
          : i % 3 === 2
            ? store.commit([put(`k${i}`, "1")], [{ empty: { from: "there", to: "therf" } }])
            : store.commit([put(`k${i}`, "1"), put(`l${i}`, "1")], [{ key: "there", expect: 1 }]),
      ),
    );
    const revisions = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    expect(revisions).toEqual(Array.from({ length: 30 }, (_, i) => i + 2));
    const found = await store.list({ from: "k", to: "m", limit: 1_000 });
    const wanted = revisions.flatMap((revision, i) => [`k${i * 3}@${revision}`, `l${i * 3}@${revision}`]);
    expect(found.map(({ key, revision }) => `${key}@${revision}`).toSorted()).toEqual(wanted.toSorted());
    expect(store.status().revision).toBe(31);
    const refusals = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason] : []));
    for (const refusal of refusals) expect(refusal).toMatchObject({ name: "StaleWrite", key: "there", current: 1 });
  });

  it("holds a commit to all that it expects of a key, however often it changes it", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    await store.commit([put("k", "1")]);
    await expect(store.commit([put("k", "2", 0), put("k", "3")])).rejects.toMatchObject({ key: "k", current: 1 });
    await expect(store.commit([put("k", "2"), put("k", "3", 0)])).rejects.toMatchObject({ key: "k", current: 1 });
    await expect(store.commit([put("k", "2", 1), put("k", "3")])).resolves.toBe(2);
    expect(await contentsOf(store)).toEqual(["k=3"]);
  });

  it("refuses a key too long for the server's index, and no other commit with it", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    const long = store.commit([put("k".repeat(3_000), "1")]);
    const short = store.commit([put("k", "1")]);
    await expect(long).rejects.toThrow(/2600 bytes/);
    await expect(short).resolves.toBe(1);
    // Random, so that the server cannot make it smaller.
    const longest = Buffer.from(Array.from({ length: 1_950 }, () => Math.random() * 256)).toString("base64");
    await expect(store.commit([put(longest.slice(0, 2_600), "1")])).resolves.toBe(2);
  });

  it("takes back all of a content whose end does not come", async () => {
    const { store } = await file.open({ schema: file.newSchema() });
    async function* pages() {
      yield [{ key: "a", value: Buffer.from("1"), revision: 1 }];
      throw new Error("the backup ends too soon");
    }
    await expect(store.fill({ revision: 9, pages: pages() })).rejects.toThrow("the backup ends too soon");
    expect(await contentsOf(store)).toEqual([]);
    expect(await store.commit([put("a", "1")])).toBe(1);
  });

  it("is created once, however many replicas start at once on an empty database", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 6 }, () => file.open({ schema })));
    expect(new Set(replicas.map(({ store }) => store.status().storeId)).size).toBe(1);
    const revisions = await Promise.all(replicas.map(({ store }, i) => store.commit([put(`k${i}`, "")])));
    expect(revisions.toSorted()).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("leaves nothing half created when the connection breaks during its creation", async () => {
    const schema = file.newSchema();
    const { server } = file;
    const wire = await openWire(server.port);
    onTestFinished(() => wire.close());
    // Another process is creating it during this transaction.
    await server.query("create table holder ()");
    const holding = server.query(
      `begin; select pg_advisory_xact_lock(hashtextextended('latchkey ${schema}', 0)); lock holder; select pg_sleep(1)`,
    );
    await until(
      async () => (await server.query("select from pg_locks where relation = 'holder'::regclass")).length > 0,
    );
    const opening = openReplica({ url: server.storeUrl(schema, { port: String(wire.port) }) });
    const failed = expect(opening).rejects.toBeInstanceOf(StoreUnavailable);
    await until(async () => (await server.query("select from pg_locks where not granted")).length > 0);
    wire.cut();
    await failed;
    await holding;
    await until(async () => (await server.query("select from pg_locks where locktype = 'advisory'")).length === 0);
    expect(await server.query("select from pg_namespace where nspname = $1", [schema])).toEqual([]);
    const { store } = await file.open({ schema });
    expect(store.status().revision).toBe(0);
  });

  it("uses an existing schema with a role that may create none", async () => {
    const schema = file.newSchema();
    await file.server.query("create role lodger login");
    const open = () => file.open({ schema, parameters: { user: "lodger" } });
    await expect(open()).rejects.toThrow(new RegExp(`create schema ${schema} authorization "lodger"`));
    await file.server.query(`create schema ${schema} authorization lodger`);
    const { store } = await open();
    expect(await store.commit([put("a", "1")])).toBe(1);
  });

  it("refuses a store that a newer latchkey has written, and a missing one when none may be created", async () => {
    const schema = file.newSchema();
    await expect(file.open({ schema, create: false })).rejects.toThrow(/there is no store/);
    const { store } = await file.open({ schema });
    await store.close();
    await file.server.query(`update ${schema}.head set format = 99`);
    const opening = file.open({ schema });
    await expect(opening).rejects.toBeInstanceOf(StoreRefused);
    await expect(opening).rejects.toThrow(/format 99, written by a newer Latchkey/);
  });

  it.each([
    ["default_transaction_isolation = 'serializable'", /read committed/],
    ["default_transaction_read_only = on", /read-only/],
  ])("refuses a role with %s, and names the right setting", async (setting, what) => {
    const schema = file.newSchema();
    await file.server.query(`create role odd login superuser; alter role odd set ${setting}`);
    await expect(file.open({ schema, parameters: { user: "odd" } })).rejects.toThrow(what);
    await file.server.query("drop role odd");
  });

  it("works without information that some managed servers hide", async () => {
    const schema = file.newSchema();
    await file.server.query(`create role tenant login; create schema ${schema} authorization tenant;
      revoke execute on function pg_current_wal_lsn() from public`);
    const { store } = await file.open({ schema, parameters: { user: "tenant" }, timing: { pollEveryMs: 20 } });
    expect(await store.commit([put("a", "1")])).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(store.status()).toMatchObject({ revision: 1, writable: true });
    await file.server.query("grant execute on function pg_current_wal_lsn() to public");
  });

  it("warns of a server that does not care for its disk", async () => {
    await file.server.query("alter system set fsync = off");
    await file.server.query("select pg_reload_conf()");
    await until(async () => (await file.server.query("show fsync"))[0].fsync === "off");
    const { logged } = await file.open({ schema: file.newSchema() });
    expect(logged.join("")).toContain("fsync off");
    await file.server.query("alter system reset fsync");
    await file.server.query("select pg_reload_conf()");
  });

  it("reports an address without an answer", async () => {
    const port = await freePort();
    const opening = openReplica({ url: `postgres://ada:hunter2@127.0.0.1:${port}/broker` });
    await expect(opening).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(opening).rejects.toThrow(`127.0.0.1:${port}: connect ECONNREFUSED`);
    await expect(opening).rejects.not.toThrow("hunter2");
  });

  it("reports a missing database", async () => {
    const opening = file.open({ schema: file.newSchema(), parameters: { dbname: "nowhere" } });
    await expect(opening).rejects.toBeInstanceOf(StoreRefused);
    await expect(opening).rejects.toThrow(/database "nowhere" does not exist/);
  });

  it("is not spoken to in the open when it was to be in secret", async () => {
    const opening = file.open({ schema: file.newSchema(), parameters: { sslmode: "require" } });
    await expect(opening).rejects.toBeInstanceOf(StoreRefused);
    await expect(opening).rejects.toThrow(/does not support SSL/);
  });

  it("comes in over a Unix socket", async () => {
    const { folder } = file.server;
    const { store } = await file.open({ schema: file.newSchema(), parameters: { host: folder } });
    expect(await store.commit([put("a", "1")])).toBe(1);
  });

  describe("in an environment that is set up for other programs", () => {
    const foreign = { PGOPTIONS: "-c search_path=nowhere -c nonsense=1", PGDATABASE: "nowhere", PGSSLMODE: "require" };
    afterEach(() => {
      for (const name of Object.keys(foreign)) delete process.env[name];
    });

    it("goes by its address alone", async () => {
      Object.assign(process.env, foreign);
      const { store } = await file.open({ schema: file.newSchema() });
      expect(await store.commit([put("a", "1")])).toBe(1);
    });
  });

  it("leaves no connection and no timer behind when it is closed", async () => {
    const schema = file.newSchema();
    const before = process.getActiveResourcesInfo().toSorted();
    const { store } = await file.open({ schema, parameters: { application_name: schema } });
    const snapshot = await store.snapshot();
    const listing = store.list(everything);
    await Promise.all(Array.from({ length: 20 }, (_, i) => store.commit([put(`k${i}`, ""), remove("never")])));
    await listing;
    await store.close();
    await snapshot.close();
    await expect(store.watch(0, { onCommit() {}, onLost() {} })).rejects.toThrow("the store is closed");
    await expect(store.snapshot()).rejects.toThrow("the store is closed");
    await until(() => process.getActiveResourcesInfo().length <= before.length);
    const left = await file.server.query("select from pg_stat_activity where application_name = $1", [schema]);
    expect(left).toEqual([]);
  });
});

/** Polls; the test's own timeout ends a wait that is too long. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}
