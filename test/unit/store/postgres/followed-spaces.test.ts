import { Client } from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { createMetrics } from "../../../../src/base/metrics/metrics.ts";
import { type Backend, HistoryLost, type Watch } from "../../../../src/store/contract.ts";
import { follow } from "../../../../src/store/follow.ts";
import { everything, postgresForFile, put, recordingWatcher, remove } from "../../../support/postgres/stores.ts";
import { lacks } from "../../../support/sidecar/needs.ts";

describe.skipIf(lacks("postgres"))("a replica that follows some spaces", () => {
  const file = postgresForFile();
  const silent = { debug() {}, info() {}, warn() {}, error() {} };

  /** A replica that watches the space "a", and one that writes. */
  async function pair() {
    const schema = file.newSchema();
    const [writer, reader] = await Promise.all([file.open({ schema }), file.open({ schema })]);
    const watched = recordingWatcher();
    await reader.store.watch(0, { ...watched, spaces: ["a"] });
    return { writer: writer.store, reader: reader.store, told: watched.told };
  }

  it("does not read what other processes change in other spaces", async () => {
    const { writer, reader, told } = await pair();
    await writer.commit([put("a\0first", "1")]);
    // More than the history keeps.
    for (let i = 0; i < 20; i += 1) await writer.commit([put(`bulk\0${i}`, "x".repeat(1_000_000))]);
    await writer.commit([put("a\0last", "2"), put("bulk\0last", "x"), put("a", "3")]);
    await reader.caughtUp();
    const wanted = ["1:a\0first=1", "22:a=3,a\0last=2"];
    expect(told.filter((line) => line.includes("="))).toEqual(wanted);
    expect(reader.status().revision).toBe(22);
    const resumed = recordingWatcher();
    await reader.watch(0, { ...resumed, spaces: ["a"] });
    expect(resumed.told.filter((line) => line.includes("="))).toEqual(wanted);
  });

  it("knows the history of another space from the first watch on", async () => {
    const { writer, reader } = await pair();
    await writer.commit([put("b\0before", "1")]);
    await reader.caughtUp();
    const { told, ...watcher } = recordingWatcher();
    await expect(reader.watch(0, { ...watcher, spaces: ["a", "b"] })).rejects.toBeInstanceOf(HistoryLost);
    await reader.watch(1, { ...watcher, spaces: ["a", "b"] });
    await writer.commit([put("b\0after", "2"), put("c", "1")]);
    await reader.caughtUp();
    expect(told.filter((line) => line.includes("="))).toEqual(["2:b\0after=2"]);
  });

  it("reads everything for a watcher of everything", async () => {
    const { writer, reader } = await pair();
    await writer.commit([put("b\0before", "1")]);
    await reader.caughtUp();
    const { told, ...watcher } = recordingWatcher();
    await expect(reader.watch(0, watcher)).rejects.toBeInstanceOf(HistoryLost);
    await reader.watch(1, watcher);
    await writer.commit([put("b\0after", "2"), remove("b\0before"), put("é", "1")]);
    await reader.caughtUp();
    expect(told).toEqual(["2:b\0after=2,b\0before=gone,é=1"]);
  });

  it("repeats a read that was on its way when a space was added", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: 20 } });
    await store.watch(0, { ...recordingWatcher(), spaces: ["a"] });
    const client = new Client({ host: file.server.folder, port: file.server.port, user: "postgres" });
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`begin; lock ${schema}.entry; update ${schema}.head set revision = 1`);
    await client.query(`insert into ${schema}.entry values ('\\x620078', 'v', 1)`);
    const blocked = "select from pg_locks where not granted and relation = $1::regclass";
    await expect.poll(async () => (await file.server.query(blocked, [`${schema}.entry`])).length).toBeGreaterThan(0);
    const { told, ...watcher } = recordingWatcher();
    await store.watch(0, { ...watcher, spaces: ["b"] });
    await client.query("commit");
    await expect.poll(() => store.status().revision).toBe(1);
    expect(told).toEqual(["1:b\0x=v"]);
  });

  it("misses nothing of spaces that it begins to follow while others write", async () => {
    const { writer, reader } = await pair();
    const names = Array.from({ length: 12 }, (_, i) => `space${i}`);
    let isOver = false;
    const writing = (async () => {
      for (let i = 0; !isOver; i += 1) {
        const name = names[i % names.length] ?? "";
        await writer.commit([
          put(`${name}\0${i % 7}`, `${i}`),
          i % 3 === 0 ? remove(`${name}\0x`) : put(`${name}\0x`, `${i}`),
        ]);
      }
    })();
    const copies = new Map<string, Map<string, string>>();
    for (const name of names) {
      const copy = new Map<string, string>();
      copies.set(name, copy);
      const watch = await followSpace(reader, name, copy);
      onTestFinished(() => watch.close());
    }
    isOver = true;
    await writing;
    await reader.caughtUp();
    const stored = (await reader.list(everything)).map(({ key, value }) => `${key}=${Buffer.from(value)}`);
    const copied = [...copies.values()].flatMap((copy) => [...copy].map(([key, value]) => `${key}=${value}`));
    expect(copied.toSorted()).toEqual(stored.toSorted());
  });

  it("begins again if others commit while it begins to follow a space", async () => {
    const { writer, reader } = await pair();
    let isFirst = true;
    const hurried: Backend = {
      ...reader,
      async watch(from, watcher) {
        if (isFirst) await writer.commit([put("b\0x", "1")]);
        isFirst = false;
        await reader.caughtUp();
        return reader.watch(from, watcher);
      },
    };
    const copy = new Map<string, string>();
    const watch = await followSpace(hurried, "b", copy);
    onTestFinished(() => watch.close());
    expect([...copy]).toEqual([["b\0x", "1"]]);
  });

  it("follows a space again after the server lost the commits before it was followed", async () => {
    const schema = file.newSchema();
    const { store } = await file.open({ schema, timing: { pollEveryMs: 50 } });
    await store.watch(0, { ...recordingWatcher(), spaces: ["a"] });
    for (let i = 1; i <= 5; i += 1) await store.commit([put(`a\0${i}`, "1")]);
    const copy = new Map<string, string>();
    const watch = await followSpace(store, "b", copy);
    onTestFinished(() => watch.close());
    await file.server.query(
      `delete from ${schema}.entry where revision > 1; delete from ${schema}.mark where revision > 1;
      update ${schema}.head set revision = 1`,
    );
    await expect.poll(() => store.status().revision).toBe(1);
    await expect.poll(() => store.caughtUp()).toBeUndefined();
    await store.commit([put("b\0after", "1")]);
    expect([...copy]).toEqual([["b\0after", "1"]]);
  });

  function followSpace(store: Backend, name: string, copy: Map<string, string>): Promise<Watch> {
    return follow({
      store,
      world: { now: Date.now, log: silent, metrics: createMetrics() },
      spaces: [name],
      async read() {
        const entries = await store.list({ from: `${name}\0`, to: `${name}\x01`, limit: 1_000 });
        return () => {
          for (const { key, value } of entries) copy.set(key, `${Buffer.from(value)}`);
        };
      },
      onCommit({ changes }) {
        for (const { key, value } of changes) {
          if (!key.startsWith(`${name}\0`)) continue;
          if (value === undefined) copy.delete(key);
          else copy.set(key, `${Buffer.from(value)}`);
        }
      },
    });
  }
});
