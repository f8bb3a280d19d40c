import { expect, it } from "vitest";
import type { WatchChannelsResponse } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { codeOf, dayMs, provider, State, startWatching } from "./channels.ts";

it("lists channels by integration, connection and state, a page at a time", async () => {
  const { connect, rpc, ref } = await startWatching();
  for (const id of ["ada", "bob"]) {
    await connect(id);
    await rpc().createChannel({ connection: ref(id) });
    await rpc().createChannel({ connection: ref(id), resource: "ada@example.com", id: `${id}-team` });
  }
  await rpc().stopChannel({ environment: "dev", id: "bob-team" });
  const list = async (filter: object) => (await rpc().listChannels({ environment: "dev", ...filter })).channels;
  expect((await list({})).map(({ connection, resource }) => [connection?.id, resource])).toEqual([
    ["ada", "ada@example.com"],
    ["ada", "primary"],
    ["bob", "ada@example.com"],
    ["bob", "primary"],
  ]);
  expect((await list({ integration: provider, connectionId: "bob" })).length).toBe(2);
  expect(await list({ integration: "other" })).toEqual([]);
  expect((await list({ states: [State.STOPPED] })).map(({ id }) => id)).toEqual(["bob-team"]);
  const first = await rpc().listChannels({ environment: "dev", pageSize: 3 });
  const second = await rpc().listChannels({ environment: "dev", pageSize: 3, pageToken: first.nextPageToken });
  expect([first.channels.length, second.channels.length, second.nextPageToken]).toEqual([3, 1, ""]);
  expect(await codeOf(list({ connectionId: "bob" }))).toBe("invalid_argument");
  expect(await codeOf(rpc().getChannel({ environment: "dev", id: "none" }))).toBe("not_found");
  expect(await codeOf(rpc().stopChannel({ environment: "dev", id: "none" }))).toBe("not_found");
});

it("streams an environment's channels and then every change to them", async () => {
  const { connect, rpc, ref } = await startWatching();
  await connect("ada");
  await rpc().createChannel({ connection: ref("ada"), id: "first" });
  const ended = new AbortController();
  const seen: WatchChannelsResponse[] = [];
  const watched = (async () => {
    for await (const step of rpc().watchChannels({ environment: "dev" }, { signal: ended.signal })) seen.push(step);
  })().catch(() => {});
  const states = () => seen.flatMap(({ event }) => (event.case === "put" ? [[event.value.id, event.value.state]] : []));
  await expect.poll(() => seen.length).toBeGreaterThanOrEqual(3);
  expect(states()).toEqual([["first", State.ACTIVE]]);
  await rpc().stopChannel({ environment: "dev", id: "first" });
  await expect.poll(states).toEqual([
    ["first", State.ACTIVE],
    ["first", State.STOPPING],
    ["first", State.STOPPED],
  ]);
  ended.abort();
  await watched;
});

it("records who created and stopped a channel, encrypts its token, and refuses another environment's key", async () => {
  const { connect, rpc, ref, sidecar, sandbox } = await startWatching();
  await connect("ada");
  await rpc().createChannel({ connection: ref("ada"), id: "first" });
  await rpc().renewChannel({ environment: "dev", id: "first" });
  const [current] = (await rpc().listChannels({ environment: "dev", states: [State.ACTIVE] })).channels;
  await rpc().stopChannel({ environment: "dev", id: current?.id ?? "" });
  const { events } = await sidecar.client(LogService).listAuditEvents({ environment: "dev" });
  const lines = events
    .filter(({ action }) => action.startsWith("channel."))
    .map(({ action, targets }) => [action, targets]);
  expect(lines).toEqual([
    ["channel.stop", [`${provider}/ada/${current?.id}`]],
    ["channel.renew", [`${provider}/ada/first`]],
    ["channel.create", [`${provider}/ada/first`]],
  ]);
  const { token } = JSON.parse(String(sandbox.seen().last.watch?.[0]?.body));
  expect(sidecar.logged.join("\n")).not.toContain(token);
  const { channels } = await rpc().listChannels({ environment: "dev" });
  expect(JSON.stringify(channels, (_, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
    token,
  );
  const mine = sidecar.client(ChannelService, secretKey);
  expect((await mine.listChannels({})).channels.length).toBe(2);
  expect(await codeOf(mine.listChannels({ environment: "prod" }))).toBe("permission_denied");
});

it("shows the last message of a channel, also after a restart", async () => {
  const watching = await startWatching({ automatic: true });
  const { connect, keep, sandbox, forwards, clock } = watching;
  await connect("ada");
  await keep();
  for (let i = 0; i < 3; i += 1) sandbox.changeCalendar("ada@example.com");
  await expect.poll(() => forwards("forward").length).toBe(4);
  const heard = await watching.current();
  expect(heard?.lastMessageNumber).toBe("4");
  expect(Number(heard?.lastNotifiedAt?.seconds)).toBe(Math.trunc(clock.now() / 1_000));
  await watching.restart();
  expect(await watching.sidecar.metric('latchkey_channels{state="active"}')).toBe(1);
  clock.pass(6 * dayMs);
  await keep();
  expect((await watching.current())?.previousId).toBe(heard?.id);
  expect(watching.live()).toHaveLength(1);
});

it("notifies the application when the provider refuses a connection's channel, and retries after a new authorization", async () => {
  const watching = await startWatching({ automatic: true });
  const { connect, keep, sandbox, forwards, clock, requests } = watching;
  sandbox.behave({ answers: { watch: [{ kind: "error", status: 403, error: "insufficientPermissions", times: 1 }] } });
  await connect("ada");
  await keep();
  await expect
    .poll(() => forwards("channel"))
    .toMatchObject([
      { operation: "failed", connectionId: "ada", error: { type: "status_403_insufficientPermissions" } },
    ]);
  clock.pass(2 * dayMs);
  await keep();
  expect(requests("watch")).toBe(1);
  await connect("ada");
  await keep();
  expect(await watching.current()).toMatchObject({ state: State.ACTIVE });
});

it("shows nothing of a deleted environment to one with its name", async () => {
  const watching = await startWatching();
  const { sidecar, sandbox, keep, live, clock } = watching;
  const environments = sidecar.client(EnvironmentService);
  const integrations = sidecar.client(IntegrationService);
  const connections = sidecar.client(ConnectionService);
  const environment = "stage";
  const oauth = { clientId: "sandbox" };
  const secrets = { clientSecret: "sandbox-secret" };
  async function setUp(): Promise<void> {
    await environments.createEnvironment({ name: environment });
    await integrations.createIntegration({
      integration: { environment, key: provider, provider, oauth, secrets, channels: { automatic: true } },
    });
    const { access_token, refresh_token } = sandbox.grant();
    const credentials = {
      kind: { case: "oauth2" as const, value: { accessToken: access_token, refreshToken: refresh_token } },
    };
    await connections.batchImportConnections({
      connections: [{ environment, integration: provider, id: "ada", credentials }],
    });
  }
  const list = async () => (await watching.rpc().listChannels({ environment })).channels;
  await setUp();
  await keep();
  const [first] = await list();
  expect(first?.state).toBe(State.ACTIVE);
  sandbox.behave({ answers: { stop: [{ kind: "error", status: 500, error: "backendError" }] } });
  await connections.deleteConnection({ ref: { environment, integration: provider, id: "ada" } });
  await integrations.deleteIntegration({ environment, key: provider });
  await environments.deleteEnvironment({ name: environment });
  await environments.createEnvironment({ name: environment });
  expect(await list()).toEqual([]);
  expect(await codeOf(watching.rpc().getChannel({ environment, id: first?.id ?? "" }))).toBe("not_found");
  await environments.deleteEnvironment({ name: environment });
  const stopping = () => sidecar.metric('latchkey_channels{state="stopping"}');
  await expect.poll(stopping).toBe(1);
  await keep();
  await expect.poll(stopping).toBe(0);
  await setUp();
  await keep();
  const found = await list();
  expect(found.map(({ state }) => state)).toEqual([State.ACTIVE]);
  expect(found[0]?.id).not.toBe(first?.id);
  expect(live().map(({ id }) => id)).toEqual([first?.id, found[0]?.id]);
  clock.pass(6 * dayMs);
  await keep();
  expect((await list()).find(({ state }) => state === State.ACTIVE)?.previousId).toBe(found[0]?.id);
});
