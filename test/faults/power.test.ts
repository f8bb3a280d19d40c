/**
 * A machine that loses its power: everything unsynced is gone. disk.c defines a power loss. Longer:
 * LATCHKEY_FAULT_ROUNDS=50. To repeat: LATCHKEY_FAULT_SEED with the seed that a run prints.
 */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { StoreRefused } from "../../src/store/contract.ts";
import { below, faultSeed, seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Account, createAccount } from "./account.ts";
import { createFaultyDisk, type PowerLoss } from "./disk.ts";
import { useDiskShim } from "./shim.ts";
import { readStore, someMoment, startWriting, underLoad } from "./writing.ts";

const rounds = Number(process.env["LATCHKEY_FAULT_ROUNDS"] ?? 5);

describe.skipIf(lacks("compiler"))("a power loss", () => {
  const shim = useDiskShim();

  /** Writes for some time, loses the power, and returns the mistakes. */
  async function loseOnce({ account, folder, random, life, bytes, when, loss, noSync = "", edits }: Life) {
    const disk = createFaultyDisk({ folder: join(folder, "store"), shim: shim(), noSync });
    if (edits !== undefined) disk.killBeforeSync("MANIFEST", edits);
    const store = `level:${folder}`;
    const callers = 1 + below(random, 64);
    const writing = startWriting({ account, store, life, env: disk.env, seed: below(random, 2 ** 31), callers, bytes });
    await when({ random, writing });
    await writing.kill();
    expect(writing.stderr()).toBe("");
    disk.losePower({ random, ...loss });
    try {
      return account.audit(await readStore(store));
    } catch (error) {
      if (!(error instanceof StoreRefused)) throw error;
      return [error.message];
    }
  }

  it(
    "S09 loses nothing acknowledged, and keeps nothing by half",
    async () => {
      const seed = faultSeed();
      const random = seeded(seed);
      const folder = await temporaryFolder();
      const account = createAccount();
      for (let round = 1; round <= rounds; round += 1) {
        const loss = {
          names: random() < 0.5 ? ("own" as const) : ("ordered" as const),
          unsynced: (["gone", "torn", "zeros"] as const)[below(random, 3)] ?? "gone",
        };
        const bytes = [200, 2_000, 40_000][below(random, 3)] ?? 0;
        const wrong = await loseOnce({ account, folder, random, life: `life${round}`, bytes, when: someMoment, loss });
        expect(wrong, `round ${round} of seed ${seed}, ${JSON.stringify(loss)}`).toEqual([]);
      }
      console.log(`S09: ${rounds} power losses, ${account.acknowledged()} commits acknowledged, seed ${seed}`);
    },
    60_000 + rounds * 10_000,
  );

  it("S09 loses nothing when it comes while LevelDB records a new table", async () => {
    const random = seeded(10);
    const folder = await temporaryFolder();
    const account = createAccount();
    for (const unsynced of ["zeros", "torn", "gone"] as const) {
      for (const names of ["own", "ordered"] as const) {
        for (const edits of [1, 2]) {
          const loss = { names, unsynced };
          const like = { account, folder, random, bytes: 40_000, when: untilItEnds, loss, edits };
          const wrong = await loseOnce({ ...like, life: `${unsynced}-${names}-${edits}` });
          expect(wrong, `${edits} edits, ${JSON.stringify(loss)}`).toEqual([]);
        }
      }
    }
  });

  it("S09 loses data of a store whose log is not synced: otherwise this proves nothing", async () => {
    const random = seeded(9);
    // So little is written that everything is in the log, which is lost.
    const like = { random, bytes: 2_000, when: underLoad, loss: { names: "own", unsynced: "gone" } } as const;
    for (let round = 1; round <= 3; round += 1) {
      const folder = await temporaryFolder();
      const account = createAccount();
      expect(await loseOnce({ ...like, account, folder, life: "synced" })).toEqual([]);
      expect(await loseOnce({ ...like, account, folder, life: "unsynced", noSync: ".log" })).not.toEqual([]);
    }
  });
});

/** Waits for a writer that ends by itself: that is the moment. Its stderr would give the reason. */
const untilItEnds: typeof someMoment = ({ writing }) => writing.until(() => false).catch(() => {});

interface Life {
  readonly account: Account;
  /** Its subfolder `store` is on the simulated disk. */
  readonly folder: string;
  readonly random: () => number;
  readonly life: string;
  readonly bytes: number;
  /** Waits for the moment. */
  readonly when: typeof someMoment;
  readonly loss: Omit<PowerLoss, "random">;
  readonly noSync?: string;
  /** It ends by itself, before the sync of LevelDB's manifest with this number. */
  readonly edits?: number;
}
