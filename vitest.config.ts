import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Real sockets, real stores: a slow machine must not turn a right answer into a red test.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Vitest's own choice is one fewer than there are cores. One more would be quicker still, and some tests hold to a time.
    maxWorkers: Math.max(2, availableParallelism()),
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./test/tally.ts"],
  },
});
