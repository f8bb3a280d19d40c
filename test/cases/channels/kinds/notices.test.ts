import { expect, it } from "vitest";
import { LogService } from "../../../../src/gen/latchkey/v1/log_pb.ts";
import { hourMs, State } from "../channels.ts";
import { type Kind, kinds, startKinds } from "./kinds.ts";
import { signedByTwitch } from "./styles.ts";

const kindOf = (provider: string): Kind => {
  const found = kinds.find((one) => one.provider === provider);
  if (found === undefined) throw new Error(`there is no kind ${provider}`);
  return found;
};

async function startGraph(channels: Readonly<Record<string, unknown>> = {}) {
  const kind = kindOf("microsoft");
  const world = await startKinds(["microsoft"]);
  await world.integrate(kind, { channels });
  await world.connect(kind, "c0");
  const made = await world.rpc().createChannel({ connection: world.ref(kind, "c0") });
  const [subscription] = world.sandbox.subscriptions.live();
  if (subscription === undefined || made.channel === undefined) throw new Error("there is no subscription");
  const send = async (value: Readonly<Record<string, unknown>>, clientState = subscription.token) => {
    const body = JSON.stringify({ value: [{ subscriptionId: subscription.id, clientState, ...value }] });
    const headers = { "content-type": "application/json" };
    return (await fetch(subscription.address, { method: "POST", headers, body })).status;
  };
  return { ...world, kind, subscription, channel: made.channel, send };
}

it("takes a notification by the key of its channel, and no notice of a stranger", async () => {
  const { send, forwards, sandbox, channels } = await startGraph();
  expect(await send({ resource: "me/messages/1", changeType: "created" })).toBe(200);
  await expect.poll(() => forwards("forward").length).toBe(1);
  expect(forwards("forward")[0].connectionId).toBe("c0");
  expect(await send({ resource: "me/messages/1", changeType: "created" }, "guessed")).toBe(401);
  expect(await send({ lifecycleEvent: "subscriptionRemoved" }, "guessed")).toBe(401);
  expect(sandbox.subscriptions.live()).toHaveLength(1);
  expect((await channels("microsoft")).map(({ state }) => state)).toEqual([State.ACTIVE]);
});

it("creates a removed channel again within a minute, tells it, and forwards no notice", async () => {
  const { send, forwards, sandbox, subscription, keep, clock, channels, sidecar } = await startGraph();
  clock.pass(hourMs);
  sandbox.subscriptions.drop(subscription.id);
  expect(await send({ lifecycleEvent: "subscriptionRemoved" })).toBe(200);
  clock.pass(1_000);
  await keep();
  const live = sandbox.subscriptions.live();
  expect(live).toHaveLength(1);
  expect(live[0]?.id).not.toBe(subscription.id);
  const states = (await channels("microsoft")).map(({ state }) => state).sort();
  expect(states).toEqual([State.ACTIVE, State.EXPIRED]);
  await expect
    .poll(() => forwards("channel").map(({ operation, error }) => [operation, error?.type]))
    .toEqual([["expired", "removed"]]);
  expect(forwards("forward")).toEqual([]);
  expect(await sidecar.metric('latchkey_channel_notices_total{kind="recreate"}')).toBe(1);
  const { logs } = await sidecar.client(LogService).listLogs({ environment: "dev", operation: "channel.notice" });
  expect(logs).toHaveLength(1);
});

it("starts to catch up at once after lost notifications, and reauthorizes without a new expiry", async () => {
  const { send, forwards, sandbox, channel, keep, clock, channels, sidecar } = await startGraph({
    catchUpSyncs: ["messages"],
  });
  expect(await send({ lifecycleEvent: "missed" })).toBe(200);
  // There is no such script: the log says that it was to start, without waiting for a scan.
  const caughtUp = () => sidecar.client(LogService).listLogs({ environment: "dev", operation: "sync.catch_up" });
  await expect
    .poll(async () => (await caughtUp()).logs.map(({ lines }) => lines[0]?.fields?.["code"]))
    .toEqual(["missed"]);
  await expect
    .poll(() => forwards("channel").map(({ operation, error }) => [operation, error?.type]))
    .toEqual([["gap", "missed"]]);
  clock.pass(hourMs);
  expect(await send({ lifecycleEvent: "reauthorizationRequired" })).toBe(200);
  await keep();
  expect(sandbox.seen().last.renew?.map(({ target }) => target.split("/").at(-1))).toEqual(["reauthorize"]);
  const [after] = await channels("microsoft");
  expect([after?.state, after?.expiresAt, after?.renewAt]).toEqual([State.ACTIVE, channel.expiresAt, channel.renewAt]);
  expect(await sidecar.metric('latchkey_channel_notices_total{kind="catch_up"}')).toBe(1);
  expect(forwards("forward")).toEqual([]);
});

it("creates a channel again that the provider does not know at its renewal", async () => {
  const { sandbox, subscription, keep, clock, forwards, kind } = await startGraph();
  sandbox.subscriptions.drop(subscription.id);
  clock.pass((kind.lifeMs ?? 0) * 0.86);
  await keep();
  expect(sandbox.subscriptions.live()).toHaveLength(1);
  await expect
    .poll(() => forwards("channel").map(({ operation, error }) => [operation, error?.type]))
    .toEqual([["expired", "gone"]]);
});

it("refuses a handshake that it did not begin, and learns the key of the one that it did", async () => {
  const kind = kindOf("asana");
  const world = await startKinds(["asana"]);
  await world.integrate(kind);
  await world.connect(kind, "c0");
  await world.rpc().createChannel({ connection: world.ref(kind, "c0"), resource: "1201" });
  const [subscription] = world.sandbox.subscriptions.live();
  const address = subscription?.address ?? "";
  const shake = (to: string) => fetch(to, { method: "POST", headers: { "x-hook-secret": "of-a-stranger" } });
  expect((await shake(address)).status).toBe(404);
  expect((await shake(address.replace(/channel=.*/, "channel=unknown"))).status).toBe(404);
  const body = '{"events":[]}';
  const { createHmac } = await import("node:crypto");
  const sign = (key: string) => createHmac("sha256", key).update(body).digest("hex");
  const send = async (key: string) =>
    (await fetch(address, { method: "POST", headers: { "x-hook-signature": sign(key) }, body })).status;
  expect([await send(subscription?.token ?? ""), await send("of-a-stranger")]).toEqual([200, 401]);
  // A sender that leaves out the channel needs a proof all the same.
  expect((await fetch(address.replace(/\?.*/, ""), { method: "POST", body })).status).toBe(401);
});

it("ends or remakes what a provider revokes", async () => {
  const kind = kindOf("twitch");
  const world = await startKinds(["twitch"]);
  const { sandbox, clock, keep } = world;
  await world.integrate(kind);
  await world.connect(kind, "c0");
  await world.rpc().createChannel({ connection: world.ref(kind, "c0") });
  await sandbox.subscriptions.settled();
  expect((await world.channels("twitch")).map(({ state }) => state)).toEqual([State.ACTIVE]);
  const revoke = async (status: string) => {
    const [subscription] = sandbox.subscriptions.live();
    if (subscription === undefined) throw new Error("there is no subscription");
    const body = JSON.stringify({ subscription: { id: subscription.id, status, type: "stream.online" } });
    const headers = {
      "content-type": "application/json",
      ...signedByTwitch(subscription, body, clock.now(), "revocation"),
    };
    const response = await fetch(subscription.address, { method: "POST", headers, body });
    sandbox.subscriptions.drop(subscription.id);
    return response.status;
  };
  clock.pass(hourMs);
  expect(await revoke("notification_failures_exceeded")).toBe(200);
  await keep();
  await sandbox.subscriptions.settled();
  expect(sandbox.subscriptions.live()).toHaveLength(1);
  expect(await revoke("authorization_revoked")).toBe(200);
  clock.pass(hourMs);
  await keep();
  expect(sandbox.subscriptions.live()).toHaveLength(0);
  expect((await world.channels("twitch")).map(({ stateReason }) => stateReason)).toContain("ended");
  expect(world.forwards("forward")).toEqual([]);
});

it("gives syncs the position to begin from, and asks for several renewals at once", async () => {
  const [drive, jira] = [kinds.find(({ resourceKind }) => resourceKind === "changes"), kindOf("jira")];
  if (drive === undefined) throw new Error("there are no changes");
  const world = await startKinds(["google-drive", "jira"]);
  await world.integrate(drive);
  await world.connect(drive, "c0");
  const { channel } = await world.rpc().createChannel({ connection: world.ref(drive, "c0"), resourceKind: "changes" });
  expect(channel?.position).toBe("p-1");
  const shown = await world.sidecar.rest("GET", "/connections/c0?provider_config_key=google-drive");
  expect(shown.body.metadata.driveChangesPageToken).toBe("p-1");

  await world.integrate(jira);
  await world.connect(jira, "j0");
  for (const resource of ["project = A", "project = B", "project = C"]) {
    await world.rpc().createChannel({ connection: world.ref(jira, "j0"), resource });
  }
  world.clock.pass((jira.lifeMs ?? 0) * 0.86);
  await world.keep();
  const { last } = world.sandbox.seen();
  expect(last.renew?.map(({ body }) => JSON.parse(body).webhookIds.length)).toEqual([3]);
});

it("adopts a channel whose creation had no answer, or stops it where only the answer has its key", async () => {
  const [graph, airtable] = [kindOf("microsoft"), kindOf("airtable")];
  const world = await startKinds(["microsoft", "airtable"]);
  const { sandbox, keep, rpc } = world;
  const lose = () => sandbox.behave({ answers: { watch: [{ kind: "drop-answer", times: 1 }] } });
  await world.integrate(graph, { channels: { automatic: true } });
  lose();
  await world.connect(graph, "c0");
  await keep();
  await keep();
  const [adopted] = await world.channels("microsoft");
  expect([adopted?.state, adopted?.providerId]).toEqual([State.ACTIVE, sandbox.subscriptions.live()[0]?.id]);
  expect([sandbox.seen().requests.watch, sandbox.seen().requests.stop ?? 0]).toEqual([1, 0]);

  await world.integrate(airtable);
  await world.connect(airtable, "a0");
  const create = () => rpc().createChannel({ connection: world.ref(airtable, "a0"), resource: "appBase1" });
  lose();
  await expect(create()).rejects.toThrow();
  const lost = sandbox.subscriptions.live().find(({ style }) => style === "airtable");
  await create();
  const live = sandbox.subscriptions.live().filter(({ style }) => style === "airtable");
  expect(live).toHaveLength(1);
  expect(live[0]?.id).not.toBe(lost?.id);
});
