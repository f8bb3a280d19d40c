import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { everything, postgresForFile, put, type Replica } from "../../../support/postgres/stores.ts";
import { lacks } from "../../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("the connections of a process", () => {
  const file = postgresForFile();

  async function connections(): Promise<number> {
    const others = "pid <> pg_backend_pid() and backend_type = 'client backend'";
    const [{ count }] = await file.server.query(`select count(*)::int from pg_stat_activity where ${others}`);
    return count;
  }

  /** More than one page. */
  const fill = ({ store }: Replica) =>
    store.commit(Array.from({ length: 5_000 }, (_, i) => put(`k${String(i).padStart(4, "0")}`, "v")));

  it("are six under load, and two at rest, of which one listens", async () => {
    const replica = await file.open({ schema: file.newSchema(), timing: { keepUnusedMs: 300 } });
    const { store } = replica;
    await fill(replica);
    let isOver = false;
    let most = 0;
    const caller = async (number: number): Promise<void> => {
      for (let turn = 0; !isOver; turn += 1) {
        await store.commit([put(`own${number}`, `${turn}`)]);
        const kinds = [
          () => store.get(`k${number}`),
          () => store.caughtUp(),
          () => store.list(everything),
          store.clock,
        ];
        await kinds[(turn + number) % kinds.length]?.();
      }
    };
    const callers = Array.from({ length: 24 }, (_, number) => caller(number));
    for (let look = 0; look < 40; look += 1) most = Math.max(most, await connections());
    isOver = true;
    await Promise.all(callers);
    expect(most).toBeGreaterThan(2);
    expect(most).toBeLessThanOrEqual(6);

    // What an idle process does now and then needs no more.
    const resting = (async () => {
      while (isOver) {
        await store.clock();
        await store.getMany(["k0001", "k0002"]);
        await store.commit([put("lease-term\0own", "1")]);
        await sleep(50);
      }
    })();
    await expect.poll(connections).toBe(2);
    isOver = false;
    await resting;
  });

  it("reads what is much while few other processes do, and in the end in any case", async () => {
    const schema = file.newSchema();
    const timing = { fullReads: 1 };
    const replicas = await Promise.all([file.open({ schema, timing }), file.open({ schema, timing })]);
    const late = await file.open({ schema, timing: { ...timing, fullReadWithinMs: 200 } });
    await fill(replicas[0]);
    const hold = new Client(file.server.storeUrl(schema).replace(/\?.*/, ""));
    await hold.connect();
    onTestFinished(() => hold.end());
    const held = "from pg_locks where locktype = 'advisory' and granted";

    let read = 0;
    let most = 0;
    const reading = [...replicas, ...replicas].map(async ({ store }) => {
      const entries = await store.list(everything);
      read += 1;
      return entries.length;
    });
    while (read < reading.length) {
      const [{ count }] = await file.server.query(`select count(*)::int ${held}`);
      most = Math.max(most, count);
    }
    expect(await Promise.all(reading)).toEqual([5_000, 5_000, 5_000, 5_000]);
    expect(most).toBeLessThanOrEqual(1);

    // Another process has the only place: take whatever lock it takes.
    let lock: { classid: string; objid: string } | undefined;
    while (lock === undefined) {
      // A read may be over before it is seen to hold the lock.
      const asked = replicas[0].store.list(everything);
      [lock] = await file.server.query(`select classid::text, objid::text ${held}`);
      await asked;
    }
    await hold.query("select pg_advisory_lock($1, $2)", [Number(lock.classid) | 0, Number(lock.objid)]);
    let isRead = false;
    const waiting = replicas[1].store.list(everything).then((entries) => {
      isRead = true;
      return entries.length;
    });
    expect(await late.store.list(everything)).toHaveLength(5_000);
    expect(isRead).toBe(false);
    // Short reads do not wait.
    expect(await replicas[1].store.list({ ...everything, limit: 10 })).toHaveLength(10);
    await hold.query("select pg_advisory_unlock_all()");
    expect(await waiting).toBe(5_000);
  });
});
