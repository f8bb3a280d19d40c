import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/runner/longest-first.ts";
import { sharedFiles } from "./test/support/runner/shared-files.ts";

const common = {
  // Real sockets, real stores: a slow machine must not turn a right answer into a red test.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  // Whoever promises a time says so in the test.
  expect: { poll: { timeout: 60_000 } },
};

/** Tests of requests that ordinarily take the fast lane. */
const throughTheDoor = [
  "test/cases/proxy/*.test.ts",
  "test/cases/webhooks/door.test.ts",
  "test/cases/webhooks/receiving.test.ts",
  "test/peers/nango-proxy.test.ts",
];

/** The pure units, the shape of the source, and a file of each subject through the doors. */
const quick = [
  "test/unit/**/*.test.ts",
  "test/house/{floors,limits,smoke,documents,named-paths}.test.ts",
  "test/cases/{oauth/callbacks,proxy/credentials,proxy/fields,rest/metadata,webhooks/identity}.test.ts",
];
/** Units that take many seconds: real databases, scripts that use up their limits. */
const slowUnits = [
  "test/unit/store/{model,model-postgres,postgres-replicas,level-damage}.test.ts",
  "test/unit/store/{level,postgres}/**",
  "test/unit/scripts/{containment,folder,throttle,tools}.test.ts",
  "test/unit/base/http/http2-goaway.test.ts",
  "test/unit/broker/{connections/lookup/resource-index,syncs/run-queue,tokens/token-endpoint}.test.ts",
  "test/unit/base/node/text-writes.test.ts",
  "test/unit/core/channel-schedules.test.ts",
];

export default defineConfig({
  test: {
    // Three more than there are cores: half of the time tests only wait for something to pass.
    maxWorkers: availableParallelism() + 3,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./test/support/runner/tally.ts"],
    projects: [
      // Every file, alone in its process: for runs of a few files.
      { test: { ...common, name: "all", include: ["test/**/*.test.ts"] } },
      // The same files as a run of everything takes them: a worker runs many that leave nothing behind.
      {
        test: {
          ...common,
          name: "apart",
          include: ["test/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...sharedFiles],
        },
      },
      { test: { ...common, name: "shared", isolate: false, restoreMocks: true, include: [...sharedFiles] } },
      // The tests that find most within a minute: `npm run test:quick`.
      { test: { ...common, name: "quick", include: quick, exclude: slowUnits } },
      // What a request to a provider or a webhook comes to must be the same without the fast lane. Left out is what
      // never takes it.
      {
        test: {
          ...common,
          name: "general lane",
          // Its files leave nothing behind: a worker loads the source once for all of them.
          isolate: false,
          include: [...throughTheDoor, "test/cases/edges/edge-proxy.test.ts"],
          exclude: ["test/cases/proxy/{crowd,fuzz,h2-floods,lanes,tls,upgrade,streams-slow}.test.ts"],
          env: { LATCHKEY_TEST_LANE: "general" },
        },
      },
      // And where each is worked on together with all that come in the same turn.
      {
        test: {
          ...common,
          name: "crowd",
          // Its files leave nothing behind: a worker loads the source once for all of them.
          isolate: false,
          include: [...throughTheDoor, "test/unit/relay/http1/kept-connections.test.ts"],
          // Left out as well: what is decided once a head was read, and streams of HTTP/2, which are never read in batches.
          exclude: [
            "test/cases/proxy/{h2,h2-floods,tls,upgrade,streams-slow}.test.ts",
            "test/cases/proxy/{alias,credentials,crowd,dpop,egress,paths,reflection}.test.ts",
          ],
          env: { LATCHKEY_TEST_LANE: "crowd" },
        },
      },
    ],
  },
});
