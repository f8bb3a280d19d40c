/** Like model.test.ts, with a server that loses its power now and then, with or without its clients. */
import { afterAll, beforeAll, describe, it } from "vitest";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { modelRun } from "./model.ts";
import { modelSeed, modelSteps, modelTimeoutMs } from "./model-settings.ts";

describe.skipIf(lacks("postgres"))("on a server", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it(
    "postgres answers like a plain map, to concurrent requests and during kills",
    async () => {
      const fixture = {
        store: server.storeUrl("model"),
        collapse: async () => {
          await server.crash();
          await server.start();
        },
      };
      const [seed, steps] = [modelSeed(), modelSteps()];
      console.log(`the postgres model: seed ${seed}`);
      const report = await modelRun({ fixture, seed, steps });
      console.log(`the postgres model: ${JSON.stringify(report)}`);
    },
    modelTimeoutMs(),
  );
});
