/** A disk that makes errors under a running store. disk.c makes them. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { serveInProcess } from "../support/sidecar/process.ts";
import { createAccount } from "./account.ts";
import { createCaller } from "./caller.ts";
import { createFaultyDisk } from "./disk.ts";
import { useDiskShim } from "./shim.ts";
import { readStore, startWriting, type Writing } from "./writing.ts";

describe.skipIf(lacks("compiler"))("a disk with errors", () => {
  const shim = useDiskShim();

  /** A store on such a disk, and a writer. */
  async function prepare() {
    const folder = await temporaryFolder();
    const store = `level:${folder}`;
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const account = createAccount();
    const writing = startWriting({ account, store, life: "life", env: disk.env, seed: 14, callers: 8, bytes: 2_000 });
    await more(writing, "done", 200);
    return { store, disk, account, writing };
  }

  it("S14 refuses commits and keeps reading while the disk is read-only, and then accepts commits again", async () => {
    const { store, disk, account, writing } = await prepare();
    disk.fail({ error: "EROFS", calls: ["write", "open", "sync"] });
    await more(writing, "unavailable", 20);
    const [done, read] = [writing.count("done"), writing.count("read")];
    // Long enough for it to try to open the database again, more than once.
    await sleep(2_500);
    expect(writing.count("done")).toBe(done);
    expect(writing.count("unread"), writing.lastReason()).toBe(0);
    expect(writing.count("read") - read).toBeGreaterThan(20);

    disk.heal();
    await more(writing, "done", 200);
    await writing.kill();
    expect(account.audit(await readStore(store))).toEqual([]);
  });

  it("S14 answers 503 to writes while the disk is read-only, keeps reading, and is ready again without a restart", async () => {
    const folder = await temporaryFolder();
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    const { address } = await serveInProcess({ folder, env: disk.env });
    const data = createCaller(address("data"));
    const ready = async () => (await fetch(`${address("ops")}/readyz`)).status;
    await data.setUp();
    expect(await data.connect("before")).toBe(201);

    disk.fail({ error: "EROFS", calls: ["write", "open", "sync"] });
    expect(await data.connect("refused")).toBe(503);
    await expect.poll(ready).toBe(503);
    await sleep(1_500);
    expect(await data.connect("refused")).toBe(503);
    expect(await data.show("before")).toBe(200);

    disk.heal();
    await expect.poll(() => data.connect("after")).toBe(201);
    expect(await ready()).toBe(200);
    expect(await data.show("before")).toBe(200);
  });

  it.each(["ordered", "own"] as const)(
    "loses nothing when one sync fails, the kernel drops unwritten data, and the power fails (names: %s)",
    async (names) => {
      const { store, disk, account, writing } = await prepare();
      disk.fail({ error: "EIO", calls: ["sync"], times: 1 });
      await more(writing, "unavailable", 1);
      await more(writing, "done", 200);
      await writing.kill();
      expect(disk.faults()).toBe(1);
      disk.losePower({ random: seeded(1), names, unsynced: "gone" });
      expect(account.audit(await readStore(store))).toEqual([]);
    },
  );

  it("S07 loses nothing when the disk is full in the middle of a write, and then commits a hundred writes", async () => {
    for (const afterBytes of [0, 100, 3_000, 40_000]) {
      const { store, disk, account, writing } = await prepare();
      disk.fail({ error: "ENOSPC", calls: ["write"], afterBytes });
      await more(writing, "unavailable", 20);
      disk.heal();
      await more(writing, "done", 100);
      await writing.kill();
      expect(disk.faults()).toBeGreaterThan(0);
      // A half-written value is either there or not.
      if (afterBytes > 1_000) disk.losePower({ random: seeded(afterBytes), names: "ordered", unsynced: "torn" });
      expect(account.audit(await readStore(store)), `after ${afterBytes} bytes`).toEqual([]);
    }
  });
});

/** Waits until the writer has reported this so many more times. */
async function more(writing: Writing, said: Parameters<Writing["count"]>[0], times: number): Promise<void> {
  const from = writing.count(said);
  await writing.until(() => writing.count(said) >= from + times);
}
