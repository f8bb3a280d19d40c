import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { StaleWrite, StoreUnavailable } from "../../../../src/store/contract.ts";
import { contentsOf, postgresForFile, put } from "../../../support/postgres/stores.ts";
import { lacks } from "../../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("groups of commits that wait for another process", () => {
  const file = postgresForFile();
  const never = 3_600_000;

  const turnOf = (schema: string) => `pg_advisory_xact_lock(hashtextextended('latchkey commits of ${schema}', 0))`;

  /** Commits without end, as a process that waits for a slow disk. */
  async function holdTurn(schema: string): Promise<{ end(): Promise<void> }> {
    const client = new Client({ host: file.server.folder, port: file.server.port, user: "postgres" });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`begin; select ${turnOf(schema)}`);
    return { end: async () => void (await client.query("commit")) };
  }

  interface Left {
    readonly mark: number;
    readonly key: string;
    readonly expect?: number;
    readonly session?: number;
    readonly seen?: { readonly revision: number; readonly mark: number };
    readonly dueInMs?: number;
  }

  /** Leaves a group as a process does that dies before it asks for the outcome. The turn must be held. */
  async function leave(schema: string, { mark, key, expect: wanted, session, seen, dueInMs = 10_000 }: Left) {
    const [answer] = await file.server.query(
      `select * from ${schema}.commit_3(1, array[$1::bytea], array['ghost'::bytea], array[1], $2::bigint[],
        '{}', '{}', '{}', '{}', '{}', '{}', extract(epoch from clock_timestamp()) * 1000 + $3, $4, $5, $6, $7)`,
      [Buffer.from(key), wanted === undefined ? [] : [wanted], dueInMs, session, seen?.revision, seen?.mark, mark],
    );
    expect(answer.base).toBeNull();
  }

  const countOf = async (table: string) => (await file.server.query(`select from ${table}`)).length;
  const untilWaiting = (schema: string, count: number) =>
    expect.poll(() => countOf(`${schema}.waiting_group`)).toBe(count);

  it("commits with its own group all that others left, and tells each its outcome", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 4 }, () => file.open({ schema })));
    const turn = await holdTurn(schema);
    await leave(schema, { mark: 1, key: "ghost", expect: 0 });
    await leave(schema, { mark: 2, key: "ghost", expect: 0 });
    const asked = replicas.flatMap(({ store }, i) => [store.commit([put(`k${i}`, "1"), put("all", `${i}`)])]);
    await untilWaiting(schema, 6);
    await turn.end();
    const revisions = await Promise.all(asked);
    // The ghosts take one revision: only one of the two created the key.
    expect(new Set(revisions).size).toBe(4);
    const last = (replicas[0] ?? expect.unreachable()).store;
    await last.caughtUp();
    expect(last.status().revision).toBe(5);
    expect(await contentsOf(last)).toEqual([
      `all=${revisions.indexOf(Math.max(...revisions))}`,
      ...["ghost=ghost", "k0=1", "k1=1", "k2=1", "k3=1"],
    ]);
    const outcomes = await file.server.query(
      `select mark::int, refused, stale_revisions::int[] as stale from ${schema}.group_outcome order by mark`,
    );
    const ghost = (await last.get("ghost"))?.revision;
    expect(outcomes.map(({ refused }) => refused)).toEqual([null, [1]]);
    expect(outcomes[1].stale).toEqual([ghost]);
    await untilWaiting(schema, 0);
  });

  it("refuses what expects the state before the groups ahead of it, and nothing else", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 3 }, () => file.open({ schema })));
    const turn = await holdTurn(schema);
    const asked = replicas.map(({ store }, i) => store.commit([put("one", `${i}`, 0)]));
    const beside = replicas.map(({ store }, i) => store.commit([put(`beside${i}`, "1", 0)]));
    await untilWaiting(schema, 3);
    await turn.end();
    const outcomes = await Promise.allSettled(asked);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const refused = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect(refused.every((error) => error instanceof StaleWrite && error.key === "one")).toBe(true);
    await Promise.all(beside);
  });

  it("leaves alone what its own process would be refused, and what fails", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: never } });
    await store.commit([put("first", "1")]);
    const [{ value: mark }] = await file.server.query(
      `select value::float8 as value from ${schema}.mark where revision = 1`,
    );
    await file.server.query(`insert into ${schema}.ended_session (session) values (77)`);
    const turn = await holdTurn(schema);
    await leave(schema, { mark: 1, key: "ended", session: 77 });
    await leave(schema, { mark: 2, key: "lost", seen: { revision: 1, mark: mark + 1 } });
    await leave(schema, { mark: 3, key: "late", dueInMs: -1 });
    await leave(schema, { mark: 4, key: randomBytes(8_000).toString("hex") });
    await leave(schema, { mark: 5, key: "good", session: 78, seen: { revision: 1, mark } });
    const asked = store.commit([put("own", "1")]);
    await untilWaiting(schema, 6);
    await turn.end();
    await asked;
    expect(await contentsOf(store)).toEqual(["first=1", "good=ghost", "own=1"]);
    for (const [left, message] of ["too late", "lost commits", "too late", "index"].entries())
      await expect(file.server.query(`select * from ${schema}.commit_waiting(${left + 1})`)).rejects.toThrow(message);
    const [outcome] = await file.server.query(`select base::int from ${schema}.commit_waiting(5)`);
    expect(outcome.base).toBe(2);
    await expect(file.server.query(`select * from ${schema}.commit_waiting(5)`)).rejects.toThrow("lost a group");
    expect(await store.commit([put("next", "1")])).toBe(4);
  });

  it("commits nothing later that it reported as failed", async () => {
    const schema = file.newSchema();
    const [a, b] = await Promise.all([file.open({ schema }), file.open({ schema })]);
    await file.server.query(`alter function ${schema}.commit_waiting set lock_timeout = '200ms'`);
    const turn = await holdTurn(schema);
    await expect(a.store.commit([put("failed", "1")])).rejects.toBeInstanceOf(StoreUnavailable);
    await untilWaiting(schema, 1);
    await expect.poll(() => countOf(`${schema}.ended_session`)).toBe(1);
    await file.server.query(`alter function ${schema}.commit_waiting set lock_timeout = '5s'`);
    await turn.end();
    await b.store.commit([put("b", "1")]);
    await expect.poll(() => a.store.status().writable).toBe(true);
    await a.store.commit([put("a", "1")]);
    expect(await contentsOf(b.store)).toEqual(["a=1", "b=1"]);
  });

  it("reports an unknown fate when a crash of the server took what waited", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema });
    const turn = await holdTurn(schema);
    // Expected at once: it may be rejected before the turn has ended.
    const rejection = expect(store.commit([put("a", "1")])).rejects.toBeInstanceOf(StoreUnavailable);
    await untilWaiting(schema, 1);
    await file.server.query(`delete from ${schema}.waiting_group`);
    await turn.end();
    await rejection;
    await expect.poll(() => store.status().writable).toBe(true);
    expect(await store.commit([put("a", "2")])).toBe(1);
  });

  it("keeps order with an older latchkey that knows nothing of the turn", async () => {
    const schema = file.newSchema();
    const replicas = await Promise.all(Array.from({ length: 3 }, () => file.open({ schema })));
    const old = async () => {
      for (let i = 0; i < 100; i += 1)
        await file.server.query(
          `select * from ${schema}.commit_2(1, array[$1::bytea], array['1'::bytea], array[1], '{0}',
            '{}', '{}', '{}', '{}', '{}', '{}', 1e300, 5, null, null, $2)`,
          [Buffer.from(`old${i}`), i],
        );
    };
    const revisions: number[] = [];
    const writers = replicas.map(async ({ store }, replica) => {
      for (let i = 0; i < 100; i += 1) revisions.push(await store.commit([put(`new${replica}/${i}`, "1", 0)]));
    });
    await Promise.all([old(), ...writers]);
    expect(new Set(revisions).size).toBe(300);
    const [{ revision }] = await file.server.query(`select revision::int from ${schema}.head`);
    expect(revision).toBe(400);
    expect(await countOf(`${schema}.entry`)).toBe(400);
  });

  it("forgets what processes left that never came back", async () => {
    const schema = file.newSchema();
    await file.open({ schema, timing: { pruneEveryMs: 50 } });
    const turn = await holdTurn(schema);
    await leave(schema, { mark: 1, key: "ghost", dueInMs: -3_600_000 });
    await leave(schema, { mark: 2, key: "ghost" });
    await file.server.query(
      `insert into ${schema}.group_outcome (mark, base, since) values (1, 0, now() - interval '1 hour'), (2, 0, now())`,
    );
    await untilWaiting(schema, 1);
    await expect.poll(() => countOf(`${schema}.group_outcome`)).toBe(1);
    await turn.end();
  });
});
