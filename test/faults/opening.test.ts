/**
 * A process that ends while it opens its store: before each single call that would change the disk.
 * LATCHKEY_FAULT_ROUNDS, with any value, tries every kind of end at every call, instead of one kind.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Account, createAccount } from "./account.ts";
import { createFaultyDisk, type PowerLoss } from "./disk.ts";
import { useDiskShim } from "./shim.ts";
import { readStore, startWriting } from "./writing.ts";

type End = Omit<PowerLoss, "random"> | undefined;

/** The process alone ends, or the machine with it. */
const ends: readonly End[] = [
  undefined,
  { names: "own", unsynced: "gone" },
  { names: "ordered", unsynced: "torn" },
  { names: "own", unsynced: "zeros" },
];
const isLong = process.env["LATCHKEY_FAULT_ROUNDS"] !== undefined;
/** More calls than opening makes. */
const manyCalls = 500;

interface Ground {
  readonly folder: string;
  readonly account: Account;
}

describe.skipIf(lacks("compiler"))("a process that ends while it opens its store", () => {
  const shim = useDiskShim();

  /** Opens a store and ends before that call. False when it was not open by then. */
  async function endBefore(calls: number, end: End, { folder, account }: Ground): Promise<boolean> {
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim() });
    disk.killAfter(calls);
    const options = { store: `level:${folder}`, life: `call${calls}`, seed: calls, callers: 1, bytes: 100 };
    const writing = startWriting({ ...options, account, env: disk.env });
    const wasOpen = await writing
      .until(() => writing.count("open") > 0)
      .then(
        () => true,
        () => false,
      );
    await writing.kill();
    if (end !== undefined) disk.losePower({ random: seeded(calls), ...end });
    return wasOpen;
  }

  /** Goes through all calls, two at a time. Returns the mistakes and the number of calls. */
  async function endBeforeEach(prepare: () => Promise<Ground>) {
    const wrong: string[] = [];
    let next = 0;
    let last = manyCalls;
    async function goOn(): Promise<void> {
      while (next < last) {
        const calls = next;
        next += 1;
        for (const end of isLong ? ends : [ends[calls % ends.length]]) {
          const fixture = await prepare();
          if (await endBefore(calls, end, fixture)) last = Math.min(last, calls);
          // A new store may warn that its marker is missing.
          const found = await readStore(`level:${fixture.folder}`, { level: "error" }).catch((error: Error) => error);
          const is = found instanceof Error ? [found.message] : fixture.account.audit(found);
          wrong.push(...is.map((sentence) => `before call ${calls}, ${JSON.stringify(end)}: ${sentence}`));
        }
      }
    }
    await Promise.all([goOn(), goOn()]);
    return { wrong, calls: last };
  }

  it("S01 S09 leaves nothing to clean up when a new store is opened", async () => {
    const prepare = async () => ({ folder: await temporaryFolder(), account: createAccount() });
    const { wrong, calls } = await endBeforeEach(prepare);
    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(10);
    expect(calls).toBeLessThan(manyCalls);
  }, 300_000);

  it("S01 S09 leaves a store that was there as it was", async () => {
    const old = await temporaryFolder();
    const account = createAccount();
    const options = { store: `level:${old}`, life: "old", seed: 1, callers: 8, bytes: 200 };
    const writing = startWriting({ ...options, account });
    await writing.until(() => writing.count("done") > 60);
    await writing.kill();
    const copy = async () => {
      const folder = await temporaryFolder();
      cpSync(join(old, "store"), join(folder, "store"), { recursive: true, filter: (path) => !path.endsWith("/lock") });
      return folder;
    };
    const before = await readStore(`level:${await copy()}`);
    expect(account.audit(before)).toEqual([]);

    const { wrong, calls } = await endBeforeEach(async () => ({
      folder: await copy(),
      account: createAccount(before),
    }));
    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(10);
    expect(calls).toBeLessThan(manyCalls);
  }, 300_000);
});
