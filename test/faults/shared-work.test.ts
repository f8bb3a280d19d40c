/** Three processes run scripts over one PostgreSQL, and one of them is killed. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import { allowPrivateFor, describeProviders } from "../../src/dev/sandbox/providers.ts";
import { type Run, Run_State, SyncService } from "../../src/gen/latchkey/v1/sync_pb.ts";
import { provider } from "../cases/channels/channels.ts";
import { started } from "../cases/sandbox/started.ts";
import { writeScripts } from "../cases/syncs/scripting.ts";
import { postgresForFile } from "../support/postgres/stores.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { adminKey, secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { lacks } from "../support/sidecar/needs.ts";
import { type Running, serveInProcess } from "../support/sidecar/process.ts";

const many = 60;
const everyMs = 30_000;
/** The first run may have been queued late too. */
const slackMs = 5_000;
const soon = { timeout: 60_000, interval: 100 };

const script = `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Saves who it is.",
  frequency: "30s",
  models: { Thing: z.object({ id: z.string() }) },
  exec: async (nango) => { await nango.batchSave([{ id: nango.activityLogId }], "Thing"); },
});`;

async function rest(running: Running, path: string, body: unknown): Promise<void> {
  const response = await fetch(`${running.address("data")}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
}

async function metric(running: Running, series: string): Promise<number> {
  const text = await (await fetch(`${running.address("ops")}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length) ?? 0);
}

async function runsIn(running: Running): Promise<readonly Run[]> {
  const authorized = createGrpcTransport({
    baseUrl: running.address("control"),
    interceptors: [
      (next) => (asked) => {
        asked.header.set("authorization", `Bearer ${adminKey}`);
        return next(asked);
      },
    ],
  });
  const all: Run[] = [];
  for (let pageToken = ""; ; ) {
    const { runs, nextPageToken } = await createClient(SyncService, authorized).listRuns({
      ...{ environment: "dev", integration: provider, pageSize: 200, pageToken },
    });
    all.push(...runs);
    pageToken = nextPageToken;
    if (pageToken === "") return all;
  }
}

const isDone = ({ state }: Run) => state === Run_State.SUCCEEDED;
const doneOf = async (running: Running, cause: string) =>
  (await runsIn(running)).filter((run) => isDone(run) && run.cause === cause);
const connectionsOf = (runs: readonly Run[]) => new Set(runs.map(({ connection }) => connection?.id)).size;

describe.skipIf(lacks("postgres"))("three processes over one PostgreSQL", () => {
  const file = postgresForFile();

  it("share the runs, and go on without one that is killed: each due time once", { timeout: 180_000 }, async () => {
    const sandbox = await started();
    const folder = await temporaryFolder();
    writeScripts(join(folder, "scripts"), { "syncs/things.ts": script });
    writeFileSync(join(folder, "latchkey.yaml"), JSON.stringify({ providers: describeProviders(sandbox.origin) }));
    const env = {
      LATCHKEY_STORE: file.server.storeUrl(file.newSchema()),
      LATCHKEY_CONFIG: join(folder, "latchkey.yaml"),
      LATCHKEY_SCRIPTS: join(folder, "scripts"),
      LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    };
    const first = await serveInProcess({ folder, env });
    const [killed, third] = await Promise.all([serveInProcess({ folder, env }), serveInProcess({ folder, env })]);
    const all = [first, killed, third];
    const shares = () => Promise.all(all.map((one) => metric(one, "latchkey_partitions")));
    await expect.poll(async () => (await shares()).toSorted(), soon).toEqual([21, 21, 22]);

    const credentials = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };
    await rest(first, "/integrations", { unique_key: provider, provider, credentials });
    const { access_token } = sandbox.grant({ user: "ada@example.com", client: "sandbox" });
    for (let i = 0; i < many; i += 1) {
      const body = { provider_config_key: provider, connection_id: `c${i}` };
      await rest(first, "/connections", { ...body, credentials: { type: "OAUTH2", access_token } });
    }
    await expect.poll(async () => connectionsOf(await doneOf(first, "schedule")), soon).toBe(many);
    const ran = await Promise.all(
      all.map((one) => metric(one, 'latchkey_runs_total{kind="sync",outcome="succeeded"}')),
    );
    for (const count of ran) expect(count).toBeGreaterThanOrEqual(many / 10);

    killed.child.kill("SIGKILL");
    await killed.exited;
    const elapsed = startStopwatch();
    for (let i = 0; i < many; i += 1) {
      await rest(first, "/sync/trigger", { provider_config_key: provider, connection_id: `c${i}`, syncs: [] });
    }
    const triggered = async () =>
      connectionsOf((await runsIn(first)).filter((run) => run.cause !== "schedule" && isDone(run)));
    await expect.poll(triggered, soon).toBe(many);
    console.log("runs of the killed process were done elsewhere within (ms):", Math.round(elapsed.ms));
    expect(elapsed.ms).toBeLessThan(25_000);

    const timesOf = async () => {
      const runs = (await runsIn(first)).filter(({ cause, dueAt }) => cause === "schedule" && dueAt !== undefined);
      const byConnection = Map.groupBy(runs, ({ connection }) => connection?.id ?? "");
      return [...byConnection.values()].map((of) =>
        of.map(({ dueAt }) => (dueAt === undefined ? 0 : timestampMs(dueAt))).toSorted((a, b) => a - b),
      );
    };
    await expect.poll(async () => (await timesOf()).filter(({ length }) => length >= 2).length, soon).toBe(many);
    for (const [begun = 0, ...later] of await timesOf()) {
      // A run that starts late, such as one of the killed process, is due at a step of the same schedule.
      const steps = later.map((ms) => Math.floor((ms - begun + slackMs) / everyMs));
      expect(steps).toEqual(later.map((_, i) => i + 1));
    }
  });
});
