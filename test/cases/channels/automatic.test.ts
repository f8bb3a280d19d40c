import { expect, it } from "vitest";
import { dayMs, hourMs, provider, State, startWatching } from "./channels.ts";

it("keeps a channel alive from the connection's creation to its deletion", async () => {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, connect, keep, live, channels, current, forwards, metadata, remove } = watching;
  await connect("ada");
  await keep();
  const first = await current();
  expect(first).toMatchObject({ resourceKind: "events", resource: "primary", managed: true, state: State.ACTIVE });
  expect(live().map(({ id }) => id)).toEqual([first?.id]);
  const [atProvider] = live();
  expect(await metadata("ada")).toMatchObject({
    calendarChannelId: first?.id,
    calendarResourceId: atProvider?.resourceId,
    calendarWatchResourceUris: [atProvider?.resourceUri],
  });

  sandbox.changeCalendar("ada@example.com");
  await expect.poll(() => forwards("forward").length).toBe(2);
  for (const forward of forwards("forward")) {
    expect(forward).toMatchObject({ connectionId: "ada", providerConfigKey: provider });
    expect(JSON.stringify(forward)).not.toContain("token");
  }
  expect(await watching.sidecar.metric("latchkey_notifications_unproven_total")).toBeUndefined();

  clock.pass(5.5 * dayMs);
  await keep();
  expect((await current())?.id).toBe(first?.id);
  clock.pass(0.5 * dayMs);
  await keep();
  const second = await current();
  expect(second?.id).not.toBe(first?.id);
  expect(second?.previousId).toBe(first?.id);
  expect(live().map(({ id }) => id)).toEqual([second?.id]);
  expect((await metadata("ada")).calendarChannelId).toBe(second?.id);
  expect((await metadata("ada")).calendarWatchResourceUris).toHaveLength(1);
  expect((await channels([State.STOPPED])).map(({ id }) => id)).toEqual([first?.id]);

  expect((await remove("ada")).status).toBe(200);
  expect(live()).toEqual([]);
  expect(await channels([State.ACTIVE, State.RENEWING, State.CREATING, State.STOPPING])).toEqual([]);
});

it("creates no channel unless automatic, and creates them for existing connections once it is", async () => {
  const watching = await startWatching();
  await watching.connect("ada");
  await watching.keep();
  expect(watching.requests("watch")).toBe(0);
  await watching.makeAutomatic();
  await watching.keep();
  await watching.keep();
  expect(watching.live()).toHaveLength(1);
  const current = await watching.current();
  await watching.rpc().stopChannel({ environment: "dev", id: current?.id ?? "" });
  await watching.keep();
  await watching.keep();
  // A channel that was stopped on request stays stopped.
  expect(watching.live()).toHaveLength(0);
  expect(await watching.metadata("ada")).not.toHaveProperty("calendarChannelId");
});

it("recreates a channel when its connection recovers, with the new credentials after a new authorization", async () => {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, connect, keep, current, live, forwards, requests } = watching;
  await connect("ada");
  await keep();
  const first = await current();
  sandbox.revoke();
  clock.pass(6 * dayMs);
  await keep();
  const failed = requests("watch");
  for (let hour = 0; hour < 30; hour += 1) {
    clock.pass(hourMs);
    await keep();
  }
  expect(await current()).toBeUndefined();
  expect(requests("watch")).toBe(failed);
  await expect.poll(() => forwards("channel").map(({ operation }) => operation)).toEqual(["expiring", "expired"]);
  await connect("ada");
  await keep();
  const second = await current();
  expect(second?.id).not.toBe(first?.id);
  expect(live().map(({ id }) => id)).toEqual([second?.id]);
});

it("leaves a channel stopped that was stopped on request, at any time and with any answer of the provider", async () => {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, connect, keep, current, live, channels, rpc, remove, requests } = watching;
  await connect("ada");
  await keep();
  const id = (await current())?.id ?? "";
  sandbox.behave({ answers: { stop: [{ kind: "error", status: 503, error: "backendError", times: 1 }] } });
  expect((await rpc().stopChannel({ environment: "dev", id })).channel?.state).toBe(State.STOPPING);
  await keep();
  clock.pass(hourMs);
  await keep();
  expect(live()).toEqual([]);
  for (let day = 0; day < 20; day += 1) {
    clock.pass(dayMs);
    await keep();
    await keep();
  }
  expect(requests("watch")).toBe(1);
  expect((await channels()).map((one) => [one.id, one.state])).toEqual([[id, State.STOPPED]]);
  // The failure is removed once a channel exists again, or the connection is gone.
  await connect("ada");
  await keep();
  clock.pass(8 * dayMs);
  await keep();
  expect((await channels()).map((one) => one.id)).not.toContain(id);
  const later = (await current())?.id ?? "";
  await rpc().stopChannel({ environment: "dev", id: later });
  clock.pass(20 * dayMs);
  await keep();
  expect((await channels()).map((one) => one.id)).toEqual([later]);
  await remove("ada");
  clock.pass(8 * dayMs);
  await keep();
  expect(await channels()).toEqual([]);
});

it("does not retry a watch that the provider refused before the connection is authorized again", async () => {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, connect, keep, current, channels, requests, warnings } = watching;
  sandbox.behave({ answers: { watch: [{ kind: "error", status: 403, error: "forbidden", times: 1 }] } });
  await connect("ada");
  await keep();
  for (let day = 0; day < 20; day += 1) {
    clock.pass(dayMs);
    await keep();
    await keep();
  }
  expect(requests("watch")).toBe(1);
  expect((await channels()).map((one) => one.state)).toEqual([State.FAILED]);
  expect(await warnings()).toEqual([
    "channels_failed: 1 watch channel was refused by the provider: it sends no webhooks for what they watch",
  ]);
  await connect("ada");
  await keep();
  expect((await current())?.state).toBe(State.ACTIVE);
});

/** Creates a connection whose access token lasts a year, as far as latchkey knows. */
async function startLasting() {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, connect, sidecar } = watching;
  sandbox.behave({ accessTokenLifetimeS: 400 * 86_400 });
  const connectLasting = () => {
    const { access_token, refresh_token } = sandbox.grant();
    const expires_at = new Date(clock.now() + 365 * dayMs).toISOString();
    return connect("ada", { more: { credentials: { type: "OAUTH2", access_token, refresh_token, expires_at } } });
  };
  await connectLasting();
  await watching.keep();
  return {
    ...watching,
    connectLasting,
    refresh: () => sidecar.rest("GET", `/connections/ada?provider_config_key=${provider}&force_refresh=true`),
    async hours(count: number) {
      for (let hour = 0; hour < count; hour += 1) {
        clock.pass(hourMs);
        await watching.keep();
      }
    },
  };
}

it("tries once with a lasting token that is refused, and again after a new authorization", async () => {
  const { sandbox, clock, hours, connectLasting, keep, current, live, forwards, requests } = await startLasting();
  const first = await current();
  sandbox.revoke();
  clock.pass(5.6 * dayMs);
  await hours(30);
  expect((await current())?.id).toBe(first?.id);
  expect(requests("watch")).toBe(2);
  await hours(10);
  expect(await current()).toBeUndefined();
  // One to renew the channel, and one for the new channel that is needed since it expired.
  expect(requests("watch")).toBe(3);
  await expect.poll(() => forwards("channel").map(({ operation }) => operation)).toEqual(["expiring", "expired"]);
  await connectLasting();
  await keep();
  expect(requests("watch")).toBe(4);
  expect(live().map(({ id }) => id)).toEqual([(await current())?.id]);
});

it("tries once to stop a channel with a refused token, and again after a new authorization", async () => {
  const { sandbox, hours, connectLasting, keep, current, live, channels, rpc, requests } = await startLasting();
  const id = (await current())?.id ?? "";
  sandbox.revoke();
  expect((await rpc().stopChannel({ environment: "dev", id })).channel).toMatchObject({
    state: State.STOPPING,
    stateReason: "reauthorization_required",
  });
  await hours(12);
  expect(requests("stop")).toBe(1);
  expect(live().map((one) => one.id)).toEqual([id]);
  await connectLasting();
  await hours(2);
  await keep();
  expect(requests("stop")).toBe(2);
  expect((await channels([State.STOPPED])).map((one) => one.id)).toEqual([id]);
});

it("keeps a channel with a token that the provider accepts, although the connection must be authorized again", async () => {
  const { sandbox, hours, clock, refresh, current, live, requests } = await startLasting();
  const first = await current();
  // The refresh token alone stops working.
  sandbox.behave({ maxRefreshTokens: 1 });
  sandbox.grant();
  expect((await refresh()).status).toBe(424);
  clock.pass(5.6 * dayMs);
  await hours(12);
  const second = await current();
  expect(second?.previousId).toBe(first?.id);
  expect(live().map(({ id }) => id)).toEqual([second?.id]);
  expect([requests("watch"), requests("stop")]).toEqual([2, 1]);
});

it("C11 spreads the renewals of channels created at once, within the provider's limits", {
  timeout: 240_000,
}, async () => {
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, keep, live, sidecar } = watching;
  const { access_token, refresh_token } = sandbox.grant();
  const expires_at = new Date(clock.now() + 300 * dayMs).toISOString();
  // A thousand take a minute and a half on a slow disk; the checks are the same.
  const many = Number(process.env["CHANNELS_DUE"] ?? 100);
  for (let i = 0; i < many; i += 1) {
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    const body = { provider_config_key: provider, connection_id: `c${i}`, credentials };
    expect((await sidecar.rest("POST", "/connections", { body })).status).toBe(201);
  }
  sandbox.behave({ accessTokenLifetimeS: 300 * 86_400 });
  await keep();
  expect(live()).toHaveLength(many);
  const due: number[] = [];
  for (let token = ""; ; ) {
    const page = await watching.rpc().listChannels({ environment: "dev", pageSize: 500, pageToken: token });
    for (const { renewAt } of page.channels) due.push(Number(renewAt?.seconds ?? 0n));
    token = page.nextPageToken;
    if (token === "") break;
  }
  const minutes = new Map<number, number>();
  for (const at of due) minutes.set(Math.trunc(at / 60), (minutes.get(Math.trunc(at / 60)) ?? 0) + 1);
  // Five hundredths of seven days are 504 minutes.
  expect(due).toHaveLength(many);
  expect(Math.max(...minutes.values())).toBeLessThan(15);
  const headers = { "retry-after": "60" };
  sandbox.behave({ answers: { watch: [{ kind: "error", status: 429, error: "rateLimitExceeded", headers }] } });
  clock.pass(6 * dayMs);
  const before = watching.requests("watch");
  await keep();
  // All of them are due, but after the calls in progress have failed, no further one is made.
  expect(watching.requests("watch") - before).toBeLessThanOrEqual(8);
  sandbox.behave({ answers: { watch: [] } });
  clock.pass(61_000);
  await keep();
  expect(watching.requests("watch") - before).toBeGreaterThan(many - 10);
});
