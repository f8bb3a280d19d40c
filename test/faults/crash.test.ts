/**
 * A process that is killed in the middle of its work. Longer: LATCHKEY_FAULT_ROUNDS=50. With the same dice:
 * LATCHKEY_FAULT_SEED with the seed that a run prints.
 */
import { expect, it } from "vitest";
import { below, faultSeed, seeded } from "../support/runner/seeded.ts";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { createAccount } from "./account.ts";
import { readStore, someMoment, startWriting } from "./writing.ts";

const rounds = Number(process.env["LATCHKEY_FAULT_ROUNDS"] ?? 6);

it(
  "S01 loses nothing acknowledged, and keeps nothing by half, when it is killed under load repeatedly",
  async () => {
    const seed = faultSeed();
    const random = seeded(seed);
    const store = `level:${await temporaryFolder()}`;
    const account = createAccount();
    for (let round = 1; round <= rounds; round += 1) {
      const writing = startWriting({
        account,
        store,
        life: `life${round}`,
        seed: below(random, 2 ** 31),
        callers: 1 + below(random, 64),
        // Sometimes large enough that tables are written and merged in the meantime.
        bytes: [200, 2_000, 40_000][round % 3] ?? 0,
      });
      await someMoment({ random, writing });
      await writing.kill();
      expect(account.audit(await readStore(store)), `round ${round} of seed ${seed}`).toEqual([]);
      expect(writing.stderr()).toBe("");
    }
    console.log(`S01: ${rounds} kills, ${account.acknowledged()} commits acknowledged, seed ${seed}`);
    expect(account.acknowledged()).toBeGreaterThan(rounds * 50);
  },
  60_000 + rounds * 3_000,
);
