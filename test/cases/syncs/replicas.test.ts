import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Run_State, SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import type { TestSidecar } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { provider } from "../channels/channels.ts";
import { startScripted } from "./scripting.ts";

const many = 20;

const sync = (body: string, more = "") => `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Saves who it is.",
  frequency: "1d",
  models: { Thing: z.object({ id: z.string() }) },
  ${more}
  exec: async (nango) => { ${body} },
});`;

describe.skipIf(lacks("postgres"))("replicas that run scripts over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  const runsOf = async (sidecar: TestSidecar) =>
    (await sidecar.client(SyncService).listRuns({ environment: "dev", integration: provider })).runs;
  const both = (...sidecars: TestSidecar[]) => Promise.all(sidecars.map(({ sidecar }) => sidecar.broker.keepRuns()));

  it("run each once, though both look at once", async () => {
    const started = await startScripted(
      { "syncs/things.ts": sync("await nango.batchSave([{ id: nango.activityLogId }], 'Thing');") },
      { env: { LATCHKEY_STORE: server.storeUrl("runs") } },
    );
    const other = await started.start();
    await Promise.all(Array.from({ length: many }, (_, i) => started.connect(`c${i}`)));
    await both(started.sidecar, other);
    const finished = async () => (await runsOf(other)).filter(({ state }) => state === Run_State.SUCCEEDED);
    await expect.poll(async () => (await finished()).length).toBe(many);
    expect(await runsOf(other)).toHaveLength(many);
    for (const i of [0, many - 1]) {
      const headers = { "provider-config-key": provider, "connection-id": `c${i}` };
      expect((await other.rest("GET", "/records?model=Thing", { headers })).body.records).toHaveLength(1);
    }
  });

  it("X09 restart the runs of a replica that was stopped", async () => {
    const started = await startScripted(
      { "syncs/things.ts": sync("await new Promise(() => setTimeout(() => {}, 1e6));", "autoStart: false,") },
      { env: { LATCHKEY_STORE: server.storeUrl("interrupted") } },
    );
    await started.connect("ada");
    await started.sidecar.rest("POST", "/sync/trigger", {
      body: { provider_config_key: provider, connection_id: "ada", syncs: [] },
    });
    await expect.poll(async () => (await runsOf(started.sidecar))[0]?.state).toBe(Run_State.RUNNING);
    const other = await started.start();
    await started.sidecar.stop();
    await expect
      .poll(async () => (await runsOf(other)).map(({ state, cause }) => [state, cause]))
      .toEqual([
        [Run_State.RUNNING, "retry"],
        [Run_State.INTERRUPTED, "trigger"],
      ]);
  });
});
