import { createHmac } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it } from "vitest";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import {
  type ForwardFilterSchema,
  Notification_Proof as Proof,
  Forward_State as State,
  WebhookService,
} from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { calendarUri, startReceiving } from "../../support/sidecar/receiving.ts";

const environment = "dev";

async function operating() {
  const receiving = await startReceiving();
  const { sidecar } = receiving;
  const client = sidecar.client(WebhookService);
  const forwarded = async (filter: MessageInitShape<typeof ForwardFilterSchema> = {}) =>
    (await client.listForwards({ environment, filter })).forwards;
  const webhooks = async (filter: object = {}) =>
    (await client.listNotifications({ environment, ...filter })).notifications;
  const actions = async (action: string) =>
    (await sidecar.client(LogService).listAuditEvents({ action })).events.map(({ targets }) => targets);
  return { ...receiving, client, forwarded, webhooks, actions, url: receiving.application.url };
}

const codeOf = (failed: Promise<unknown>): Promise<Code | undefined> =>
  failed.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

it("a person pauses a destination with a reason; deliveries wait until it is resumed, or are cancelled", async () => {
  const { client, url, notifyOf, forwarded, application, actions, sidecar } = await operating();
  const pause = (reason: string) => client.pauseDestination({ environment, url, reason });
  const { destination } = await pause("database upgrade");
  expect(destination).toMatchObject({ url, paused: true, pausedReason: "asked", pausedNote: "database upgrade" });
  expect(destination?.pausedBy).not.toBe("");
  // A second request corrects the note, and keeps the time.
  expect((await pause("upgrade, until noon")).destination).toMatchObject({
    pausedNote: "upgrade, until noon",
    pausedAt: destination?.pausedAt,
  });
  for (const number of [1, 2, 3]) expect(await notifyOf(calendarUri("nobody"), number)).toBe(200);
  const waiting = await forwarded();
  expect(waiting.map(({ state }) => state)).toEqual([State.PAUSED, State.PAUSED, State.PAUSED]);
  expect((await client.listDestinations({ environment })).destinations).toMatchObject([{ url, pending: 3n }]);

  const [newest, , oldest] = waiting.map(({ id }) => id);
  const counted = await client.cancelForwards({ environment, filter: { integration: "calendar" }, validateOnly: true });
  expect(counted).toMatchObject({ cancelled: 3n, hasMore: false, refused: {} });
  expect(counted.sample.map(({ id }) => id)).toEqual(waiting.map(({ id }) => id));
  expect(await client.cancelForwards({ environment, filter: { integration: "none" } })).toMatchObject({
    cancelled: 0n,
  });
  const byId = await client.cancelForwards({ environment, ids: [oldest ?? "", "msg_none"] });
  expect([byId.cancelled, byId.refused["msg_none"]?.code]).toEqual([1n, "not_found"]);
  expect((await forwarded({ states: [State.CANCELLED] })).map(({ id }) => id)).toEqual([oldest]);
  expect((await client.cancelForwards({ environment, ids: [oldest ?? ""] })).refused[oldest ?? ""]?.code).toBe(
    "conflict",
  );
  for (const request of [{}, { ids: ["x"], filter: {} }, { filter: { states: [State.DEAD] } }])
    expect(await codeOf(client.cancelForwards({ environment, ...request }))).toBe(Code.InvalidArgument);

  await client.resumeDestination({ environment, url });
  expect((await application.got(2)).map(({ headers }) => headers["webhook-id"])).toContain(newest);
  await expect.poll(async () => (await forwarded({ states: [State.DELIVERED] })).length).toBe(2);
  // A cancelled delivery can still be replayed, after its count.
  const filter = { states: [State.CANCELLED] };
  const preview = await client.replayForwards({ environment, filter, validateOnly: true });
  expect([preview.replayed, preview.sample.map(({ id }) => id)]).toEqual([1n, [oldest]]);
  expect(application.seen).toHaveLength(2);
  await client.replayForwards({ environment, filter });
  expect((await application.got(3)).at(-1)?.headers["webhook-id"]).toBe(oldest);
  expect(await actions("destination.pause")).toHaveLength(2);
  expect(await actions("forward.cancel")).toContainEqual([oldest, "msg_none"]);
  expect(await codeOf(client.pauseDestination({ environment, url: "http://elsewhere.example" }))).toBe(Code.NotFound);
  // The preview of ids names those that would be refused.
  const environments = sidecar.client(EnvironmentService);
  await environments.createEnvironment({ name: "stage" });
  const stranger = await client.replayForwards({ environment: "stage", ids: [newest ?? ""], validateOnly: true });
  expect([stranger.replayed, stranger.refused[newest ?? ""]?.code]).toEqual([0n, "not_found"]);
});

it("a test message is signed, is sent while paused, and its answer is explained", async () => {
  const { client, url, application, sidecar } = await operating();
  const { secrets } = await sidecar.client(EnvironmentService).listSigningSecrets({ environment, reveal: true });
  const secret = secrets[0]?.secret ?? "";
  await client.pauseDestination({ environment, url });
  const test = await client.testDestination({ environment, url });
  expect(test).toMatchObject({ accepted: true, attempt: { status: 200, error: "" } });
  expect(test.headerNames).toEqual([
    "content-type",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "x-nango-hmac-sha256",
  ]);
  const [seen] = await application.got(1);
  expect(seen?.body).toBe(Buffer.from(test.body).toString());
  expect(JSON.parse(seen?.body ?? "")).toMatchObject({ from: "latchkey", type: "test", environment });
  expect(seen?.headers["webhook-id"]).toBe(test.id);
  expect(secret).toMatch(/^whsec_/);
  const signed = `${test.id}.${seen?.headers["webhook-timestamp"]}.${seen?.body}`;
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  expect(seen?.headers["webhook-signature"]).toBe(`v1,${createHmac("sha256", key).update(signed).digest("base64")}`);
  application.answer = (_, response) => void response.writeHead(401).end("who are you?");
  const refused = await client.testDestination({ environment, url });
  expect([refused.accepted, Buffer.from(refused.attempt?.answer ?? []).toString()]).toEqual([false, "who are you?"]);
  expect(refused.explanation).toMatch(/401.*signing secret/);
  await application.close();
  const dead = await client.testDestination({ environment, url });
  expect(dead).toMatchObject({ accepted: false, attempt: { status: 0, error: "refused" } });
  expect(dead.explanation).toMatch(/Nothing listens/);
  expect(await codeOf(client.testDestination({ environment, url: "http://127.0.0.1:1/" }))).toBe(Code.NotFound);
  expect((await client.listForwards({ environment })).forwards).toEqual([]);
});

it("failures of a destination are counted until it accepts a delivery", async () => {
  const { client, url, application, notifyOf, forwarded } = await operating();
  application.answer = (_, response) => void response.writeHead(500, { "retry-after": "86400" }).end();
  await notifyOf(calendarUri("nobody"), 1);
  const health = async () => (await client.listDestinations({ environment })).destinations[0];
  await expect.poll(health).toMatchObject({ url, failures: 1, lastFailure: "status_500", pending: 1n });
  application.answer = (_, response) => void response.end();
  const [waiting] = await forwarded();
  await client.replayForwards({ environment, ids: [waiting?.id ?? ""] });
  await expect.poll(health).toMatchObject({ failures: 0, lastFailure: "", pending: 0n });
});

it("webhooks show their proof, the field that matched, and are found by kind and by text", async () => {
  const { client, connect, notify, notifyOf, integrate, webhooks, sidecar } = await operating();
  await connect("ada", { metadata: { email: "ada@example.com" } });
  await notifyOf(calendarUri("ada%40example.com"), 1);
  await integrate("github", {
    credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" },
  });
  const body = JSON.stringify({ repository: { name: "größe" }, ref: "refs/heads/main" });
  await notify({ integration: "github", headers: { "x-github-event": "push", "x-github-delivery": "d-1" }, body });
  await sidecar.client(IntegrationService).updateIntegration({
    integration: { environment, key: "github", secrets: { webhookSecret: "hook" } },
    updateMask: { paths: ["secrets.webhook_secret"] },
  });
  const signature = `sha256=${createHmac("sha256", "hook").update(body).digest("hex")}`;
  const headers = { "x-github-event": "push", "x-github-delivery": "d-2", "x-hub-signature-256": signature };
  expect((await notify({ integration: "github", headers, body })).status).toBe(200);
  await client.sendTestNotification({ environment, integration: "calendar" });
  const all = await webhooks();
  const shown = all.map(({ proof, proofScheme, matchedField, channelId, kinds }) => [
    proof,
    proofScheme !== "",
    matchedField,
    channelId,
    kinds,
  ]);
  expect(shown).toEqual([
    [Proof.TEST, expect.any(Boolean), "", "", []],
    [Proof.VALID, true, "", "", ["push"]],
    [Proof.NO_SECRET, true, "", "", ["push"]],
    [Proof.NO_SECRET, true, "metadata.email", "channel-1", []],
  ]);
  const [, valid, unsigned, adas] = all.map(({ id }) => id);
  const found = async (filter: object) => (await webhooks(filter)).map(({ id }) => id);
  expect(await found({ kind: "push" })).toEqual([valid, unsigned]);
  expect(await found({ kind: "pull" })).toEqual([]);
  expect(await found({ text: "größe" })).toEqual([valid, unsigned]);
  expect(await found({ text: "d-2" })).toEqual([valid]);
  expect(await found({ text: "ada%40example" })).toEqual([adas]);
  expect(await found({ text: "ada%40example", integration: "calendar", connectionId: "ada" })).toEqual([adas]);
  expect(await found({ text: "nothing of this" })).toEqual([]);
});

it("an unmatched webhook is assigned to a connection by hand, once, and delivered with it", async () => {
  const { client, connect, notifyOf, application, webhooks, forwarded, actions } = await operating();
  await connect("ada");
  await notifyOf(calendarUri("ada%40example.com"), 1);
  await application.got(1);
  const [unmatched] = await webhooks({ unmatched: true });
  const id = unmatched?.id ?? "";
  const assign = (connectionId: string) => client.assignNotification({ environment, id, connectionId });
  expect(await codeOf(assign("nobody"))).toBe(Code.NotFound);
  const { notification, forwards } = await assign("ada");
  expect(notification).toMatchObject({ matchedRule: -1, matches: [{ integration: "calendar", id: "ada" }] });
  expect(notification?.assignedBy).not.toBe("");
  expect(forwards.map(({ connectionId }) => connectionId).toSorted()).toEqual(["", "ada"]);
  const delivered = (await application.got(2)).at(-1);
  expect(JSON.parse(delivered?.body ?? "")).toMatchObject({ connectionId: "ada", providerConfigKey: "calendar" });
  expect(await webhooks({ unmatched: true })).toEqual([]);
  expect((await webhooks({ integration: "calendar", connectionId: "ada" })).map((one) => one.id)).toEqual([id]);
  expect(await codeOf(assign("ada"))).toBe(Code.Aborted);
  expect(await actions("notification.assign")).toEqual([[`calendar/ada/${id}`]]);
  expect(await forwarded({ integration: "calendar", connectionId: "ada", states: [State.PENDING] })).toEqual([]);
});
