import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { startWatching } from "../channels/channels.ts";
import { writeScripts } from "./scripting.ts";

const hearing = (kinds: readonly string[]) => `
import { createSync } from "latchkey/scripts";
import * as z from "zod";
export default createSync({
  description: "Hears of what it has subscribed to.",
  frequency: "1d",
  autoStart: false,
  models: { Heard: z.object({ id: z.string() }) },
  webhookSubscriptions: ${JSON.stringify(kinds)},
  exec: async () => {},
  onWebhook: async () => {},
});
`;

const welcome = `
import { createOnEvent } from "latchkey/scripts";
export default createOnEvent({
  event: "post-connection-creation",
  description: "Says hello.",
  exec: async () => {},
});
`;

async function startWith(scripts: Readonly<Record<string, string>>) {
  const folder = await temporaryFolder();
  writeScripts(folder, scripts, "github");
  const { sidecar } = await startWatching({ env: { LATCHKEY_SCRIPTS: folder } });
  const made = await sidecar.rest("POST", "/integrations", { body: { unique_key: "github", provider: "github" } });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const connection = (id: string) => ({
    environment: "dev",
    integration: "github",
    id,
    credentials: { kind: { case: "oauth2" as const, value: { accessToken: `token-of-${id}` } } },
    metadata: { login: id },
  });
  return {
    sidecar,
    connection,
    async scriptsRun() {
      const { runs } = await sidecar.client(SyncService).listRuns({ environment: "dev" });
      return runs.map(({ script, connection: ref }) => `${script} of ${ref?.id}`).sort();
    },
  };
}

it("runs a sync only for the kinds of notifications that it has subscribed to", async () => {
  const { sidecar, connection, scriptsRun } = await startWith({
    "syncs/pushes.ts": hearing(["pull_request", "push"]),
    "syncs/issues.ts": hearing(["issues"]),
    "syncs/everything.ts": hearing(["*"]),
    "syncs/nothing.ts": hearing([]),
  });
  await sidecar.client(ConnectionService).importConnection({ connection: connection("ada") });
  const notify = (event: string) =>
    sidecar.client(WebhookService).sendTestNotification({
      environment: "dev",
      integration: "github",
      headers: [
        { name: "x-github-event", value: Buffer.from(event) },
        { name: "x-github-delivery", value: Buffer.from(event) },
      ],
      body: Buffer.from('{"repository":{"owner":{"login":"ada"}}}'),
    });
  await notify("push");
  expect(await scriptsRun()).toEqual(["everything of ada", "pushes of ada"]);
  await notify("star");
  expect(await scriptsRun()).toEqual(["everything of ada", "everything of ada", "pushes of ada"]);
});

it("runs the hooks of connections imported by batch or stream only on request", async () => {
  const { sidecar, connection, scriptsRun } = await startWith({ "events/welcome.ts": welcome });
  const client = sidecar.client(ConnectionService);
  const batch = (id: string, runHooks: boolean) =>
    client.batchImportConnections({ connections: [connection(id)], runHooks });
  await batch("quiet", false);
  await batch("batched", true);
  async function* items() {
    yield { connection: connection("silent") };
    yield { connection: connection("streamed"), runHooks: true };
    yield { connection: connection("mute"), runHooks: false };
  }
  let created = 0;
  for await (const { result } of client.streamImportConnections(items())) created += result?.created === true ? 1 : 0;
  expect(created).toBe(3);
  expect(await scriptsRun()).toEqual(["welcome of batched", "welcome of streamed"]);
});

it("starts the syncs of a connection that a batch names twice", async () => {
  const { sidecar, connection } = await startWith({ "syncs/always.ts": hearing([]).replace("autoStart: false,", "") });
  // Two of one name share a commit here; in a stream they may or may not.
  const { results } = await sidecar
    .client(ConnectionService)
    .batchImportConnections({ connections: [connection("ada"), connection("bob"), connection("ada")] });
  expect(results.map(({ created }) => created)).toEqual([true, true, false]);
  const { syncs } = await sidecar.client(SyncService).listSyncs({ environment: "dev", integration: "github" });
  expect(syncs.map(({ ref }) => ref?.connection?.id)).toEqual(["ada", "bob"]);
});
