import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { dayMs, provider, State, startWatching } from "./channels.ts";

/**
 * Scripts of a customer who manages channels without latchkey: after a connection is created, once a day, and before
 * one is deleted. They use the proxy, the metadata and the integration's webhook address, and do not know about
 * latchkey's own channels.
 */
async function withScripts(automatic: boolean) {
  const watching = await startWatching({ automatic });
  const { sidecar, clock, sandbox, live, keep } = watching;
  const logged: string[] = [];
  const headers = (id: string) => ({ "provider-config-key": provider, "connection-id": id });
  const proxy = (id: string, method: string, path: string, body?: unknown) =>
    sidecar.rest(method, `/proxy${path}`, { headers: headers(id), ...(body === undefined ? {} : { body }) });
  const { body: integration } = await sidecar.rest("GET", `/integrations/${provider}?include=webhook`);
  const address: string = integration.data.webhook_url;

  async function watch(id: string) {
    const calendar = await proxy(id, "GET", "/v3/users/me/calendarList/primary");
    const path = `/v3/calendars/${encodeURIComponent(calendar.body.id)}/events/watch`;
    const channel = { id: randomUUID(), type: "webhook", address, expiration: clock.now() + 7 * dayMs };
    const made = await proxy(id, "POST", path, channel);
    return { status: made.status, id: channel.id, resourceId: String(made.body?.resourceId) };
  }

  async function store(id: string, channel: { readonly id: string; readonly resourceId: string }) {
    const metadata = { calendarChannelId: channel.id, calendarResourceId: channel.resourceId };
    const body = { connection_id: id, provider_config_key: provider, metadata };
    expect((await sidecar.rest("PATCH", "/connections/metadata", { body })).status).toBe(200);
  }

  async function stop(id: string, metadata: Readonly<Record<string, unknown>>) {
    const { calendarChannelId, calendarResourceId } = metadata;
    if (typeof calendarChannelId !== "string" || typeof calendarResourceId !== "string") return;
    const body = { id: calendarChannelId, resourceId: calendarResourceId };
    const { status } = await proxy(id, "POST", "/v3/channels/stop", body);
    if (status > 299) logged.push(`channel ${calendarChannelId} was not stopped: ${status}`);
  }

  return {
    ...watching,
    logged,
    async created(id: string) {
      const channel = await watch(id);
      expect(channel.status).toBe(200);
      await store(id, channel);
      return channel;
    },
    async renewal(id: string) {
      const before = await watching.metadata(id);
      const channel = await watch(id);
      if (channel.status !== 200) return;
      await stop(id, before);
      await store(id, channel);
    },
    async deletion(id: string) {
      await stop(id, await watching.metadata(id));
      expect((await watching.remove(id)).status).toBe(200);
    },
    /** The number of messages that the application receives for one change. */
    async heardOfOne() {
      const exists = () =>
        watching.forwards("forward").filter(({ payload }) => payload["x-cal-resource-state"] === "exists");
      const before = exists().length;
      const expected = live().length;
      sandbox.changeCalendar("ada@example.com");
      await expect.poll(() => exists().length).toBe(before + expected);
      for (const { connectionId } of exists()) expect(connectionId).toBe("ada");
      return expected;
    },
    keep,
  };
}

/** Metadata of an imported connection by which notifications find it. */
const more = { metadata: { emailAddress: "ada@example.com" } };

describe.each([false, true])("scripts that make channels, beside automatic channels: %s", (automatic) => {
  it("work as before for a month: one live channel, one event a change, and nothing left over", async () => {
    const scripts = await withScripts(automatic);
    const { connect, created, renewal, deletion, clock, keep, live, heardOfOne, forwards, logged } = scripts;
    await connect("ada", { more });
    await created("ada");
    await keep();
    expect(await heardOfOne()).toBe(1);
    for (let day = 0; day < 30; day += 1) {
      clock.pass(dayMs);
      // The scripts' days do not start when latchkey's do.
      if (day % 3 === 0) await keep();
      await renewal("ada");
      if (day % 3 !== 1) await keep();
      await keep();
      expect(live(), `on day ${day}`).toHaveLength(1);
      expect(await heardOfOne(), `on day ${day}`).toBe(1);
    }
    await deletion("ada");
    await keep();
    expect(live()).toEqual([]);
    expect(forwards("channel")).toEqual([]);
    expect(logged).toEqual([]);
  });

  it("leave one channel where latchkey's came first", async () => {
    const scripts = await withScripts(automatic);
    const { connect, created, keep, live, channels, metadata, heardOfOne } = scripts;
    await connect("ada", { more });
    await keep();
    const theirs = await created("ada");
    expect(live()).toHaveLength(automatic ? 2 : 1);
    await keep();
    expect(live()).toHaveLength(1);
    expect(await heardOfOne()).toBe(1);
    const [current] = await channels([State.ACTIVE]);
    expect(current).toMatchObject({ managed: automatic, resource: "primary" });
    expect(current?.id === theirs.id).toBe(!automatic);
    expect((await metadata("ada")).calendarChannelId).toBe(current?.id);
  });
});

describe("a channel that a script has created", () => {
  it("is shown with its known fields, and its messages are matched but not verified", async () => {
    const { connect, created, keep, rpc, sandbox, forwards, sidecar, requests, live } = await withScripts(false);
    await connect("ada", { more });
    const theirs = await created("ada");
    await keep();
    const { channels } = await rpc().listChannels({ environment: "dev" });
    expect(channels).toMatchObject([
      {
        ...{ id: theirs.id, resourceId: theirs.resourceId, managed: false, state: State.ACTIVE },
        ...{ resourceKind: "events", resource: "primary", connection: { id: "ada" }, resourceUri: "" },
      },
    ]);
    expect(channels[0]?.expiresAt).toBeUndefined();
    sandbox.changeCalendar("ada@example.com");
    await expect.poll(() => forwards("forward").map(({ connectionId }) => connectionId)).toEqual(["ada", "ada"]);
    expect(await sidecar.metric('latchkey_notifications_unproven_total{reason="no_secret"}')).toBe(2);
    const [heard] = (await rpc().listChannels({ environment: "dev" })).channels;
    expect(heard?.lastMessageNumber).toBe("2");
    expect([requests("watch"), requests("stop"), live().length]).toEqual([1, 0, 1]);
    await expect(rpc().renewChannel({ environment: "dev", id: theirs.id })).rejects.toMatchObject({ code: 10 });
  });

  it("is matched by its id alone, if nothing else identifies the connection", async () => {
    const { connect, created, keep, sandbox, forwards } = await withScripts(false);
    await connect("ada");
    await created("ada");
    await keep();
    sandbox.changeCalendar("ada@example.com");
    await expect.poll(() => forwards("forward").at(-1)?.connectionId).toBe("ada");
  });

  it("is forgotten once the metadata name another channel, or none", async () => {
    const { connect, created, renewal, keep, channels, remove } = await withScripts(false);
    await connect("ada", { more });
    const first = await created("ada");
    await keep();
    await renewal("ada");
    await keep();
    const ids = (await channels()).map(({ id }) => id);
    expect(ids).toHaveLength(1);
    expect(ids).not.toContain(first.id);
    await remove("ada");
    await keep();
    expect(await channels()).toEqual([]);
  });

  it("is stopped on request, and replaced by a channel on the same resource", async () => {
    const { connect, created, keep, live, rpc, ref, channels } = await withScripts(false);
    await connect("ada", { more });
    const first = await created("ada");
    await keep();
    const { channel } = await rpc().stopChannel({ environment: "dev", id: first.id });
    expect([channel?.state, live()]).toEqual([State.STOPPED, []]);
    await created("ada");
    await keep();
    const made = await rpc().createChannel({ connection: ref("ada") });
    expect(live().map(({ id }) => id)).toEqual([made.channel?.id]);
    expect((await channels([State.ACTIVE])).map(({ managed }) => managed)).toEqual([true]);
  });

  it("is left alone where it watches something else", async () => {
    const { connect, keep, live, sandbox, sidecar, current } = await withScripts(true);
    const { access_token } = sandbox.grant();
    const team = encodeURIComponent("team-1@group.calendar.example");
    const answer = await sandbox.send("POST", `/v3/calendars/${team}/events/watch`, {
      headers: { authorization: `Bearer ${access_token}` },
      body: { id: "of-the-team", type: "web_hook", address: "http://127.0.0.1:9/" },
    });
    const { resourceId } = (await answer.json()) as { resourceId: string };
    await connect("ada", { more: { metadata: { calendarChannelId: "of-the-team", calendarResourceId: resourceId } } });
    await keep();
    await keep();
    expect(live().map(({ id }) => id)).toEqual(["of-the-team", (await current())?.id]);
    expect(sidecar.logged.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  it("continues until latchkey's exists, however long the provider takes", async () => {
    const { connect, created, keep, live, sandbox, clock, current, forwards } = await withScripts(true);
    await connect("ada", { more });
    const theirs = await created("ada");
    sandbox.behave({ answers: { watch: [{ kind: "error", status: 429, error: "rateLimitExceeded" }] } });
    for (let i = 0; i < 3; i += 1) {
      await keep();
      clock.pass(dayMs / 12);
    }
    expect(live().map(({ id }) => id)).toEqual([theirs.id]);
    sandbox.behave({ answers: { watch: [] } });
    await keep();
    expect(live().map(({ id }) => id)).toEqual([(await current())?.id]);
    expect(forwards("channel")).toEqual([]);
  });
});
