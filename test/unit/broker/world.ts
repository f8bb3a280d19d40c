import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { World } from "../../../src/base/world.ts";
import type { Backend } from "../../../src/store/contract.ts";
import { openLevelStore } from "../../../src/store/level/level.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";

/** A world whose clock the test moves. */
export interface TestWorld extends World {
  readonly logged: readonly string[];
  advance(ms: number): void;
}

export function testWorld(): TestWorld {
  let now = Date.parse("2026-01-01T00:00:00Z");
  const logged: string[] = [];
  const log = createLog({ level: "debug", format: "json", write: (line) => void logged.push(line) });
  return {
    now: () => now,
    log,
    metrics: createMetrics(),
    logged,
    advance(ms) {
      now += ms;
    },
  };
}

/** Opens a test's own store, or an earlier one in its folder. */
export async function openTestStore({ log, metrics }: World, folder?: string): Promise<Backend> {
  const store = await openLevelStore({ folder: folder ?? join(await temporaryFolder(), "store"), log, metrics });
  onTestFinished(() => store.close());
  return store;
}
