import { describe, expect, it, onTestFinished } from "vitest";
import { createLoopClock } from "../../src/base/loop-clock.ts";
import { createConnections, type Query } from "../../src/store/postgres-connections.ts";
import { createReads } from "../../src/store/postgres-reads.ts";
import { parsePostgresUrl } from "../../src/store/postgres-url.ts";
import { lacks } from "../needs.ts";
import { postgresForFile, put, remove } from "../postgres-stores.ts";

describe.skipIf(lacks("postgres"))("reads of single keys over PostgreSQL", () => {
  const file = postgresForFile();

  async function open() {
    const schema = file.newSchema();
    const { store } = await file.open({ schema });
    const clock = createLoopClock();
    const address = parsePostgresUrl(file.server.storeUrl(schema));
    const limits = { connectWithinMs: 5_000, answerWithinMs: 10_000 };
    const connections = createConnections({ ...limits, address, clock, onWriterLost: () => {} });
    onTestFinished(async () => {
      await connections.close();
      clock.close();
    });
    let statements = 0;
    /** Fails for whoever wants it. */
    let damaged: Buffer | undefined;
    const query: Query = (text, values) => {
      statements += 1;
      const [keys] = values ?? [];
      const isDamaged = damaged !== undefined && Buffer.isBuffer(keys) && keys.includes(damaged);
      return connections.read(isDamaged ? "select 1 / 0" : text, isDamaged ? [] : values);
    };
    return {
      store,
      reads: createReads({ query, schema }),
      statements: () => statements,
      damage: (key: string) => {
        damaged = Buffer.from(key);
      },
    };
  }

  it("share statements: ten thousand who ask at once need a few", async () => {
    const { store, reads, statements } = await open();
    const keys = Array.from({ length: 500 }, (_, i) => `k${i}`);
    await store.commit(keys.map((key) => put(key, `value of ${key}`)));
    const found = await Promise.all(keys.flatMap((key) => Array.from({ length: 20 }, () => reads([key, "none"]))));
    const values = found.map(([entry, none]) => [Buffer.from(entry?.value ?? []).toString(), none]);
    expect(values).toEqual(keys.flatMap((key) => Array.from({ length: 20 }, () => [`value of ${key}`, undefined])));
    expect(statements()).toBeLessThanOrEqual(4);
    expect(await reads(["k1", "none", "k1", "k0"])).toMatchObject([
      { key: "k1" },
      undefined,
      { key: "k1" },
      { key: "k0" },
    ]);
  });

  it("see what was committed before they were asked for, however many are under way", async () => {
    const { store, reads } = await open();
    let isOver = false;
    const others = Array.from({ length: 50 }, async () => {
      while (!isOver) await reads(["counter"]);
    });
    for (let i = 1; i <= 100; i += 1) {
      const revision = await store.commit([i % 10 === 0 ? remove("counter") : put("counter", `${i}`)]);
      const [entry] = await reads(["counter"]);
      expect(entry?.revision).toBe(i % 10 === 0 ? undefined : revision);
    }
    isOver = true;
    await Promise.all(others);
  });

  it("are answered though one that shares their statement cannot be", async () => {
    const { store, reads, damage } = await open();
    await store.commit([put("a", "1"), put("b", "1"), put("damaged", "1")]);
    damage("damaged");
    const outcomes = await Promise.allSettled([reads(["a"]), reads(["damaged"]), reads(["b"])]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  });
});
