import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Real sockets, real stores: a slow machine must not turn a right answer into a red test.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    reporters: ["default", "./test/tally.ts"],
  },
});
