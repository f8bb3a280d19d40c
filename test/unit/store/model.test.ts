/**
 * Longer, or with the same questions (when a crash comes among them is up to the machine): LATCHKEY_MODEL_STEPS=1000000,
 * LATCHKEY_MODEL_SEED with the seed that a run prints.
 */
import { it } from "vitest";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { modelRun } from "./model.ts";
import { modelSeed, modelSteps, modelTimeoutMs } from "./model-settings.ts";

it(
  "level answers like a plain map, to concurrent requests and during kills",
  async () => {
    const fixture = { store: `level:${await temporaryFolder()}` };
    const [seed, steps] = [modelSeed(), modelSteps()];
    console.log(`the level model: seed ${seed}`);
    const report = await modelRun({ fixture, seed, steps });
    console.log(`the level model: ${JSON.stringify(report)}`);
  },
  modelTimeoutMs(),
);
