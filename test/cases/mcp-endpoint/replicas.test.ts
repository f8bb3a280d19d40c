import { expect, it, onTestFinished } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { StoreService } from "../../../src/gen/latchkey/v1/store_pb.ts";
import { patient } from "../../support/approvals/holding.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { connecting } from "../../support/sidecar/connecting.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { writeScripts } from "../syncs/scripting.ts";
import { olderClient } from "./older-client.ts";
import { asking, connectByKey, documents, modernCall } from "./served.ts";

const integration = "sandbox-api-key";
const name = `${integration}_ask`;
/** Two replicas with one action. */
async function replicas() {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const folder = await temporaryFolder();
  writeScripts(folder, { "actions/ask.ts": asking, "syncs/documents.ts": documents }, integration);
  const env = { LATCHKEY_STORE: server.storeUrl("mcp"), LATCHKEY_SCRIPTS: folder };
  let later = 0;
  const now = () => Date.now() + later;
  const first = await connecting({ sidecar: { env, now } });
  await connectByKey(first, integration, ["ada"]);
  const sidecar = await startTestSidecar({ env: { ...first.environment, ...env }, files: first.files, now });
  const wait = (ms: number) => {
    later += ms;
  };
  return { server, first, second: { ...first, sidecar }, wait };
}

it.skipIf(lacks("postgres"))(
  "takes answers of clients of both eras at any replica, for as long as they count",
  { timeout: 120_000 },
  async () => {
    const { server, first, second, wait } = await replicas();
    const answer = { action: "accept", content: { word: "canary-elderberry" } };

    // A client of 2025-11-25 answers at another replica than that of its call.
    const client = await olderClient(first.sidecar, { elicitation: {} });
    const call = async () => {
      const stream = await client.send({ id: 1, method: "tools/call", params: { name, arguments: {} } });
      return { ...stream, question: await stream.next() };
    };
    const open = await call();
    const reply = (id: string) => client.reply(id, { result: answer }, { at: second.sidecar });
    expect((await reply(open.question.id)).status).toBe(202);
    expect((await reply(open.question.id)).status).toBe(202);
    expect((await open.next()).result.content[0].text).toBe("17");

    // An answer that comes after its call has ended is stored for a minute, encrypted.
    const left = await call();
    left.leave();
    const ended = () => first.sidecar.metric('latchkey_mcp_calls_total{kind="action",outcome="input_needed"}');
    expect(await ended()).toBe(2);
    const stored = async () => {
      const rows = await server.query(
        // Without the entries of its index.
        "select encode(value, 'escape') as text from mcp.entry where position('mcp-answer'::bytea || decode('00', 'hex') in key) = 1 and value is not null",
      );
      for (const { text } of rows) expect(text).not.toContain("elderberry");
      return rows.length;
    };
    // The second one of above may have come before the first was taken, and was then ignored.
    const replyAgain = async () => [(await reply(left.question.id)).status, (await reply(open.question.id)).status];
    await expect.poll(async () => [...(await replyAgain()), await stored()], patient).toEqual([202, 202, 2]);

    // A stream at one replica follows what its session subscribes to at another.
    const stream = await client.open();
    const uri = `latchkey://records/${integration}/Document`;
    const subscribed = await second.sidecar.rest("POST", "/mcp", {
      body: { jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri } },
      headers: { accept: "application/json, text/event-stream", "mcp-session-id": client.session },
    });
    expect(subscribed.body).toMatchObject({ id: 1, result: {} });
    const sync = { provider_config_key: integration, connection_id: "ada", syncs: ["documents"] };
    const updated = stream.next();
    await second.sidecar.rest("POST", "/sync/trigger", { body: sync });
    expect(await updated).toMatchObject({ method: "notifications/resources/updated", params: { uri } });
    stream.leave();

    // The state of a client of 2026-07-28 opens at any replica, also after a new data key.
    const capabilities = { elicitation: {} };
    const given = { name, arguments: {} };
    const asked = async (key?: string) =>
      (await modernCall(first, "tools/call", given, { capabilities, ...(key !== undefined && { key }) })).body.result
        .requestState as string;
    const again = async (requestState: string, key?: string) => {
      const more = { ...given, requestState, inputResponses: { it: answer } };
      return (await modernCall(second, "tools/call", more, { capabilities, ...(key !== undefined && { key }) })).body;
    };
    const done = { result: { resultType: "complete", content: [{ text: "17" }] } };
    const tooOld = { error: { code: -32_602, message: expect.stringContaining("`requestState` is too old") } };
    const before = await asked();
    expect(await again(before)).toMatchObject(done);
    for await (const _ of first.sidecar.client(StoreService).reseal({}));
    expect(await again(await asked())).toMatchObject(done);
    // The data key of this one is gone.
    expect(await again(before)).toMatchObject(tooOld);

    // Another key cannot use it, and no later key with the same ID.
    const { createKey, revokeKey } = first.sidecar.client(EnvironmentService);
    const { secret: key } = await createKey({ environment: "dev", id: "app" });
    const ofApp = await asked(key);
    expect(await again(ofApp, key)).toMatchObject(done);
    expect(await again(ofApp)).toMatchObject(tooOld);
    await revokeKey({ id: "app" });
    const { secret: next } = await createKey({ environment: "dev", id: "app" });
    expect(await again(await asked(next), next)).toMatchObject(done);
    expect(await again(ofApp, next)).toMatchObject(tooOld);

    const state = await asked();
    wait(16 * 60_000);
    expect(await again(state)).toMatchObject(tooOld);
  },
);
