import { defineConfig } from "vitest/config";

const common = {
  // Real sockets, real stores: a slow machine must not turn a right answer into a red test.
  testTimeout: 30_000,
  hookTimeout: 30_000,
};

export default defineConfig({
  test: {
    reporters: ["default", "./test/tally.ts"],
    projects: [
      { test: { ...common, name: "all", include: ["test/**/*.test.ts"] } },
      // What a request to a provider comes to must be the same without the fast lane. Left out is what never takes it.
      {
        test: {
          ...common,
          name: "general lane",
          include: [
            "test/cases/proxy-*.test.ts",
            "test/data-plane/proxy-keys.test.ts",
            "test/peers/nango-proxy.test.ts",
          ],
          exclude: ["test/cases/proxy-{fuzz,lanes,tls,upgrade,streams-slow}.test.ts"],
          env: { LATCHKEY_TEST_LANE: "general" },
        },
      },
    ],
  },
});
