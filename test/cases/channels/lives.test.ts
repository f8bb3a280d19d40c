import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import type { CreateChannelResponse } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { codeOf, dayMs, hourMs, provider, State, startWatching, stateIn } from "./channels.ts";

const primary = (id = "ada") => ({ environment: "dev", integration: provider, id });

describe("a requested channel", () => {
  it("C01 has an id of at most 64 allowed characters, or no request is sent to the provider", async () => {
    const { connect, rpc, requests } = await startWatching();
    await connect("ada");
    for (const id of ["x".repeat(65), "a/b", "é", "a b", "a\n", "a=b"]) {
      expect(await codeOf(rpc().createChannel({ connection: primary(), id })), id).toBe("invalid_argument");
    }
    expect(requests("watch")).toBe(0);
    const long = "x".repeat(64);
    expect((await rpc().createChannel({ connection: primary(), id: long })).channel).toMatchObject({
      id: long,
      state: State.ACTIVE,
    });
    expect(await codeOf(rpc().createChannel({ connection: primary(), id: long, resource: "ada@example.com" }))).toBe(
      "already_exists",
    );
    const { channel } = await rpc().createChannel({ connection: primary(), resource: "ada@example.com" });
    expect(channel?.id).toMatch(/^[A-Za-z0-9_-]{20,64}$/);
    expect(requests("watch")).toBe(2);
  });

  it("C01 is refused where its provider allows less", async () => {
    const { connect, rpc, requests } = await startWatching({ rules: { max_id_length: 36 } });
    await connect("ada");
    expect(await codeOf(rpc().createChannel({ connection: primary(), id: "x".repeat(37) }))).toBe("invalid_argument");
    expect(requests("watch")).toBe(0);
    expect((await rpc().createChannel({ connection: primary() })).channel?.state).toBe(State.ACTIVE);
  });

  const taken = (times: number) => ({
    watch: [{ kind: "error" as const, status: 400, error: "channelIdNotUnique", times }],
  });

  it("C02 gets another id when the provider knows the first, three times at most", async () => {
    const watching = await startWatching({ sandbox: { behaviour: { answers: taken(2) } } });
    const { connect, rpc, requests, live, channels, sandbox } = watching;
    await connect("ada");
    const { channel } = await rpc().createChannel({ connection: primary() });
    expect(channel?.state).toBe(State.ACTIVE);
    expect(requests("watch")).toBe(3);
    const ids = (sandbox.seen().last.watch ?? []).map(({ body }) => JSON.parse(String(body)).id);
    expect(new Set(ids).size).toBe(3);
    expect(live().map(({ id }) => id)).toEqual([channel?.id]);
    expect((await channels()).map(({ id }) => id)).toEqual([channel?.id]);

    sandbox.behave({ answers: taken(10) });
    expect(await codeOf(rpc().createChannel({ connection: primary(), resource: "ada@example.com" }))).toBe(
      "unavailable",
    );
    expect(requests("watch")).toBe(6);
    // An id that the caller chose is not replaced by another.
    const chosen = { connection: primary(), resource: "team-1@group.calendar.example", id: "mine" };
    expect(await codeOf(rpc().createChannel(chosen))).toBe("already_exists");
    expect(requests("watch")).toBe(7);
  });

  it("C10 may name an exact future expiration, and records the provider's", async () => {
    const { connect, rpc, requests, clock, live } = await startWatching({
      sandbox: { behaviour: { maxChannelLifetimeS: 10 * 86_400 } },
    });
    await connect("ada");
    const create = (expiresAt: { seconds: bigint; nanos: number } | undefined, resource = "primary") =>
      rpc().createChannel({ connection: primary(), resource, ...(expiresAt && { expiresAt }) });
    const at = (ms: number) => ({ seconds: BigInt(Math.trunc(ms / 1_000)), nanos: 0 });
    for (const wrong of [
      at(clock.now() - 1),
      at(clock.now() + 10_000),
      // Seconds since 1970 in a field that takes milliseconds.
      at(clock.now() / 1_000),
      { seconds: (2n ** 53n + 1n) / 1_000n, nanos: 1_000_000 },
    ]) {
      expect(await codeOf(create(wrong)), String(wrong.seconds)).toBe("invalid_argument");
    }
    expect(requests("watch")).toBe(0);
    const inThree = Math.trunc(clock.now() / 1_000) * 1_000 + 3 * dayMs;
    const three = await create(at(inThree));
    expect(live()[0]?.expiration).toBe(inThree);
    expect(expiryOf(three)).toBe(inThree);
    const ofDefault = await create(undefined, "ada@example.com");
    expect(expiryOf(ofDefault)).toBe(clock.now() + 7 * dayMs);
    const clipped = await create(at(clock.now() + 300 * dayMs), "team-1@group.calendar.example");
    expect(expiryOf(clipped)).toBe(clock.now() + 10 * dayMs);
    const renewAt = clipped.channel?.renewAt === undefined ? 0 : timestampMs(clipped.channel.renewAt);
    expect((renewAt - clock.now()) / (10 * dayMs)).toBeGreaterThanOrEqual(0.8);
    expect((renewAt - clock.now()) / (10 * dayMs)).toBeLessThanOrEqual(0.85);
  });

  it("C10 omits the expiration if none is requested, and sends it as text otherwise", async () => {
    const { connect, rpc, sandbox, clock } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    const expiresAt = timestampFromMs(clock.now() + dayMs);
    await rpc().createChannel({ connection: primary(), resource: "ada@example.com", expiresAt });
    const [first, second] = (sandbox.seen().last.watch ?? []).map(({ body }) => JSON.parse(String(body)));
    expect(Object.keys(first)).toEqual(["id", "type", "address", "token"]);
    expect(first.token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(second.expiration).toBe(String(clock.now() + dayMs));
    expect(second.token).not.toBe(first.token);
  });

  it.each(["webhook", "web_hook"])("C13 is requested with the described form of the type: %s", async (type) => {
    const resources = {
      events: {
        watch: {
          method: "POST",
          path: "/v3/calendars/${resource}/events/watch",
          body: `{"id":"\${id}","type":"${type}","address":"\${address}","token":"\${token}"}`,
        },
        default_resource: "primary",
        resource_id: "resourceId",
        resource_uri: "resourceUri",
        expiration: "expiration",
      },
    };
    const { connect, rpc, sandbox } = await startWatching({ rules: { resources } });
    await connect("ada");
    expect((await rpc().createChannel({ connection: primary() })).channel?.state).toBe(State.ACTIVE);
    expect(JSON.parse(String(sandbox.seen().last.watch?.[0]?.body)).type).toBe(type);
  });

  it("is one of its resource: a second is refused, at once or later", async () => {
    const { connect, rpc, live, requests } = await startWatching();
    await connect("ada");
    const outcomes = await Promise.allSettled(
      Array.from({ length: 8 }, () => rpc().createChannel({ connection: primary() })),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await codeOf(rpc().createChannel({ connection: primary() }))).toBe("already_exists");
    expect(live()).toHaveLength(1);
    expect(requests("watch")).toBe(1);
  });

  it("fails when the provider refuses it, reports it, and stays listed", async () => {
    const { connect, rpc, sandbox, channels } = await startWatching();
    await connect("ada");
    sandbox.behave({ answers: { watch: [{ kind: "error", status: 400, error: "invalid", times: 1 }] } });
    expect(await codeOf(rpc().createChannel({ connection: primary() }))).toBe("failed_precondition");
    const all = await channels();
    expect(all.map(({ state, stateReason }) => [state, stateReason])).toEqual([[State.FAILED, "status_400_invalid"]]);
    expect(await codeOf(rpc().createChannel({ connection: primary(), resourceKind: "nothing" }))).toBe(
      "invalid_argument",
    );
    expect(await codeOf(rpc().createChannel({ connection: primary(), resource: ".." }))).toBe("invalid_argument");
  });
});

const expiryOf = ({ channel }: CreateChannelResponse) =>
  channel?.expiresAt === undefined ? 0 : timestampMs(channel.expiresAt);

describe("a renewal", () => {
  it.each([
    ["404", { kind: "error" as const, status: 404, error: "notFound", times: 1 }, "STATE_STOPPED"],
    ["500", { kind: "error" as const, status: 500, error: "backendError", times: 1 }, "STATE_STOPPING"],
    ["a cut connection", { kind: "reset-after-reading" as const, times: 1 }, "STATE_STOPPING"],
  ])("C03 succeeds whatever the answer to the stop: %s", async (_, misstep, wanted) => {
    const watching = await startWatching();
    const { connect, rpc, sandbox, clock, keep, channels, current, live, requests } = watching;
    await connect("ada");
    const first = (await rpc().createChannel({ connection: primary() })).channel;
    sandbox.behave({ answers: { stop: [misstep] } });
    clock.pass(6 * dayMs);
    await keep();
    const second = await current();
    expect(second).toMatchObject({ previousId: first?.id, state: State.ACTIVE });
    expect(stateIn(await channels(), first?.id)).toBe(wanted);
    if (wanted === "STATE_STOPPED") return;
    expect(
      watching.sidecar.logged.some(
        (line) => line.includes('"level":"error"') && line.includes("could not stop a channel"),
      ),
    ).toBe(true);
    const { logs } = await watching.sidecar.client(LogService).listLogs({
      ...{ environment: "dev", integration: provider, connectionId: "ada" },
      operation: "channel.not_stopped",
    });
    expect(logs).toMatchObject([
      { failed: true, lines: [{ message: expect.stringContaining("could not stop a channel") }] },
    ]);
    expect(live()).toHaveLength(2);
    clock.pass(hourMs);
    await keep();
    expect(stateIn(await channels(), first?.id)).toBe("STATE_STOPPED");
    expect(live().map(({ id }) => id)).toEqual([second?.id]);
    expect(requests("stop")).toBe(2);
  });

  it("C03 tries a stop until the channel has run out, and no longer", async () => {
    const { connect, rpc, sandbox, clock, keep, channels, requests } = await startWatching();
    await connect("ada");
    const first = (await rpc().createChannel({ connection: primary() })).channel;
    sandbox.behave({ answers: { stop: [{ kind: "error", status: 500, error: "backendError" }] } });
    clock.pass(6 * dayMs);
    for (let hour = 0; hour < 25; hour += 1) {
      await keep();
      clock.pass(hourMs);
    }
    expect(stateIn(await channels(), first?.id)).toBe("STATE_EXPIRED");
    const asked = requests("stop");
    expect(asked).toBeGreaterThan(10);
    expect(asked).toBeLessThan(40);
    clock.pass(2 * hourMs);
    await keep();
    expect(requests("stop")).toBe(asked);
  });

  it.each([403, 429, 500])(
    "C04 that fails with %d keeps the old channel, backs off, and reports it near the end",
    async (status) => {
      const watching = await startWatching();
      const { connect, rpc, sandbox, clock, keep, current, live, requests, forwards, channels } = watching;
      await connect("ada");
      const first = (await rpc().createChannel({ connection: primary() })).channel;
      const error = status === 403 ? "forbidden" : status === 429 ? "rateLimitExceeded" : "backendError";
      sandbox.behave({ answers: { watch: [{ kind: "error", status, error }] } });
      clock.pass(5.96 * dayMs);
      await keep();
      expect(await current()).toMatchObject({
        id: first?.id,
        state: State.ACTIVE,
        stateReason: `status_${status}_${error}`,
      });
      const early = requests("watch");
      await keep();
      expect(requests("watch")).toBe(early);
      expect(forwards("channel")).toEqual([]);
      for (let hour = 0; hour < 12; hour += 1) {
        clock.pass(hourMs);
        await keep();
      }
      expect(live().map(({ id }) => id)).toContain(first?.id);
      expect((await current())?.id).toBe(first?.id);
      expect(requests("watch") - early).toBeLessThan(30);
      await expect.poll(() => forwards("channel").length).toBe(1);
      expect(forwards("channel")[0]).toMatchObject({
        from: "latchkey",
        operation: "renewal_failed",
        success: false,
        connectionId: "ada",
        error: { type: `status_${status}_${error}` },
        channel: { id: first?.id, resource: "primary", state: "active" },
      });
      const { logs } = await watching.sidecar
        .client(LogService)
        .listLogs({ environment: "dev", operation: "channel.renewal_failed" });
      expect(logs).toHaveLength(1);
      expect(await watching.sidecar.metric('latchkey_channel_alerts_total{kind="renewal_failed"}')).toBe(1);
      expect(await watching.warnings()).toEqual([
        "channels_run_out: 1 watch channel could not be renewed and will run out",
      ]);
      sandbox.behave({ answers: { watch: [] } });
      clock.pass(1.3 * hourMs);
      await keep();
      expect((await current())?.previousId).toBe(first?.id);
      expect(live()).toHaveLength(1);
      expect((await channels([State.STOPPING, State.CREATING])).length).toBe(0);
    },
  );

  it("C04 is not retried earlier than the provider allows", async () => {
    const { connect, rpc, sandbox, clock, keep, requests } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    const headers = { "retry-after": "7200" };
    sandbox.behave({
      answers: { watch: [{ kind: "error", status: 429, error: "rateLimitExceeded", headers, times: 1 }] },
    });
    clock.pass(5.96 * dayMs);
    await keep();
    expect(requests("watch")).toBe(2);
    clock.pass(1.99 * hourMs);
    await keep();
    expect(requests("watch")).toBe(2);
    clock.pass(0.02 * hourMs);
    await keep();
    expect(requests("watch")).toBe(3);
  });

  it("replaces a channel that expired while the provider failed, and notifies the application", async () => {
    const { connect, rpc, sandbox, clock, keep, current, forwards, live } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    sandbox.behave({ answers: { watch: [{ kind: "error", status: 503, error: "backendError" }] } });
    clock.pass(5.96 * dayMs);
    for (let hour = 0; hour < 30; hour += 1) {
      await keep();
      clock.pass(hourMs);
    }
    await keep();
    expect(await current()).toBeUndefined();
    await expect
      .poll(() => forwards("channel").map(({ operation }) => operation))
      .toEqual(["renewal_failed", "expired"]);
    sandbox.behave({ answers: { watch: [] } });
    clock.pass(1.3 * hourMs);
    await keep();
    expect(await current()).toMatchObject({ state: State.ACTIVE });
    expect(live()).toHaveLength(1);
  });

  it("C06 loses no message of both channels, and delivers each with its own", async () => {
    const { connect, rpc, sandbox, clock, keep, forwards, channels } = await startWatching();
    await connect("ada");
    const first = (await rpc().createChannel({ connection: primary() })).channel;
    sandbox.behave({ answers: { stop: [{ kind: "error", status: 500, error: "backendError", times: 1 }] } });
    clock.pass(6 * dayMs);
    await keep();
    sandbox.changeCalendar("ada@example.com");
    await expect.poll(() => forwards("forward").length).toBe(4);
    const ids = (await channels()).map(({ id }) => id).sort();
    const of = (state: string) =>
      forwards("forward")
        .filter(({ payload }) => payload["x-cal-resource-state"] === state)
        .map(({ payload }) => payload["x-cal-channel-id"])
        .sort();
    expect(of("sync")).toEqual(ids);
    expect(of("exists")).toEqual(ids);
    expect(ids).toContain(first?.id);
    expect(new Set(forwards("forward").map(({ connectionId }) => connectionId))).toEqual(new Set(["ada"]));
  });

  it("C12 is one watch call, however many ask for it", async () => {
    const { connect, rpc, sandbox, clock, keep, requests, live } = await startWatching();
    await connect("ada");
    const id = (await rpc().createChannel({ connection: primary() })).channel?.id ?? "";
    sandbox.behave({ answers: { watch: [{ kind: "ordinary", holdMs: 300 }] } });
    clock.pass(6 * dayMs);
    const asked = Array.from({ length: 6 }, () => rpc().renewChannel({ environment: "dev", id }));
    const outcomes = await Promise.allSettled([keep(), ...asked]);
    expect(requests("watch")).toBe(2);
    expect(outcomes.slice(1).filter(({ status }) => status === "fulfilled").length).toBeLessThanOrEqual(1);
    expect(live()).toHaveLength(1);
  });

  it("is done on request, and refused with another revision", async () => {
    const { connect, rpc, live, channels } = await startWatching();
    await connect("ada");
    const first = (await rpc().createChannel({ connection: primary() })).channel;
    const renew = (expectedRevision: bigint) =>
      rpc().renewChannel({ environment: "dev", id: first?.id ?? "", expectedRevision });
    expect(await codeOf(renew((first?.revision ?? 0n) + 1n))).toBe("aborted");
    const { channel } = await renew(first?.revision ?? 0n);
    expect(channel).toMatchObject({ previousId: first?.id, state: State.ACTIVE });
    expect(live().map(({ id }) => id)).toEqual([channel?.id]);
    expect(stateIn(await channels(), first?.id)).toBe("STATE_STOPPED");
    expect(await codeOf(renew(0n))).toBe("aborted");
  });
});

describe("an answer that is lost", () => {
  it.each(["drop-answer", "cut-answer"] as const)(
    "to a first watch leaves no channel that is not known: %s",
    async (kind) => {
      const { connect, rpc, sandbox, clock, keep, channels, live, current } = await startWatching();
      await connect("ada");
      sandbox.behave({ notifications: "dropped", answers: { watch: [{ kind, times: 1 }] } });
      expect(await codeOf(rpc().createChannel({ connection: primary(), id: "lost" }))).toBe("unavailable");
      expect(live().map(({ id }) => id)).toEqual(["lost"]);
      expect(stateIn(await channels(), "lost")).toBe("STATE_STOPPING");
      // Its resource id is unknown until another channel on the same resource reports it.
      clock.pass(hourMs / 2);
      await keep();
      expect(live().length).toBe(1);
      await rpc().createChannel({ connection: primary(), id: "heard" });
      await keep();
      expect(live().map(({ id }) => id)).toEqual(["heard"]);
      expect(stateIn(await channels(), "lost")).toBe("STATE_STOPPED");
      expect((await current())?.id).toBe("heard");
    },
  );

  it("to a first watch is repaired by the first message, which has the id to stop the channel", async () => {
    const { connect, rpc, sandbox, forwards, keep, channels, live } = await startWatching();
    await connect("ada");
    sandbox.behave({ answers: { watch: [{ kind: "drop-answer", times: 1 }] } });
    expect(await codeOf(rpc().createChannel({ connection: primary(), id: "lost" }))).toBe("unavailable");
    const [orphan] = live();
    await expect.poll(() => forwards("forward").length).toBe(1);
    await keep();
    expect(live()).toEqual([]);
    const [known] = await channels();
    expect(known).toMatchObject({ id: "lost", state: State.STOPPED, resourceId: orphan?.resourceId });
  });

  it("to a renewal is repaired at once: one channel is left, and notifications of both are accepted", async () => {
    const { connect, rpc, sandbox, clock, keep, live, current, forwards, sidecar } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary(), id: "first" });
    sandbox.behave({ answers: { watch: [{ kind: "drop-answer", times: 1 }] } });
    clock.pass(6 * dayMs);
    await keep();
    expect((await current())?.id).toBe("first");
    clock.pass(2 * 60_000);
    await keep();
    const second = await current();
    expect(second?.previousId).toBe("first");
    expect(live().map(({ id }) => id)).toEqual([second?.id]);
    // One sync for each channel, also for the one whose answer was lost.
    await expect.poll(() => forwards("forward").length).toBe(3);
    expect(await sidecar.metric('latchkey_notifications_refused_total{reason="wrong_token"}')).toBeUndefined();
  });
});

describe("notifications", () => {
  it("C07 of a channel that was stopped are taken like any, with their token, and refused with another", async () => {
    const { connect, rpc, sandbox, forwards, sidecar, clock, keep, channels } = await startWatching();
    await connect("ada");
    const channel = (await rpc().createChannel({ connection: primary() })).channel;
    const { address, token } = JSON.parse(String(sandbox.seen().last.watch?.[0]?.body));
    await rpc().stopChannel({ environment: "dev", id: channel?.id ?? "" });
    const notify = async (number: number, more: Record<string, string>) => {
      const headers = {
        "x-cal-channel-id": channel?.id ?? "",
        "x-cal-resource-uri": channel?.resourceUri ?? "",
        "x-cal-resource-state": "exists",
        "x-cal-message-number": String(number),
        ...more,
      };
      return (await fetch(address, { method: "POST", headers })).status;
    };
    expect(await notify(7, { "x-cal-channel-token": token })).toBe(200);
    expect(await notify(8, { "x-cal-channel-token": `${token}x` })).toBe(401);
    expect(await notify(9, {})).toBe(401);
    expect(await notify(10, { "x-cal-channel-id": "a-script's-own" })).toBe(200);
    await expect
      .poll(() => forwards("forward").filter(({ payload }) => payload["x-cal-message-number"] === "7").length)
      .toBe(1);
    expect(await sidecar.metric('latchkey_notifications_refused_total{reason="wrong_token"}')).toBe(1);
    expect(await sidecar.metric('latchkey_notifications_refused_total{reason="unsigned"}')).toBe(1);
    expect(await sidecar.metric('latchkey_notifications_unproven_total{reason="no_secret"}')).toBe(1);
    clock.pass(7.1 * dayMs);
    const later = (await rpc().createChannel({ connection: primary() })).channel;
    await keep();
    expect((await channels()).map(({ id }) => id)).toEqual([later?.id]);
  });

  it("of latchkey's channels are verified although the integration has a secret for others' channels", async () => {
    const watching = await startWatching();
    const { connect, rpc, sandbox, forwards } = watching;
    const { IntegrationService } = await import("../../../src/gen/latchkey/v1/integration_pb.ts");
    await watching.sidecar.client(IntegrationService).updateIntegration({
      integration: {
        environment: "dev",
        key: provider,
        provider,
        secrets: { webhookSecret: "of-the-script", clientSecret: "sandbox-secret" },
      },
      updateMask: { paths: ["secrets"] },
    });
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    sandbox.changeCalendar("ada@example.com");
    await expect.poll(() => forwards("forward").length).toBe(2);
    const { address } = JSON.parse(String(sandbox.seen().last.watch?.[0]?.body));
    const notify = async (token: string) =>
      (
        await fetch(address, {
          method: "POST",
          headers: { "x-cal-channel-id": "other", "x-cal-message-number": "1", "x-cal-channel-token": token },
        })
      ).status;
    expect([await notify("of-the-script"), await notify("guessed")]).toEqual([200, 401]);
  });
});

describe("a deletion", () => {
  it("C08 stops the channel first, and sends nothing without one", async () => {
    const { connect, rpc, live, requests, remove } = await startWatching();
    await connect("ada");
    await connect("bob", { user: "bob@example.com" });
    await rpc().createChannel({ connection: primary() });
    expect((await remove("bob")).status).toBe(200);
    expect(requests("stop")).toBe(0);
    expect((await remove("ada")).status).toBe(200);
    expect([requests("stop"), live().length]).toEqual([1, 0]);
  });

  it("C08 stops the channel of the metadata if channels are automatic, and leaves it otherwise", async () => {
    const watching = await startWatching();
    const { connect, live, remove, sandbox, requests } = watching;
    const { access_token } = sandbox.grant();
    const watch = async (id: string) => {
      const body = { id, type: "web_hook", address: "http://127.0.0.1:9/" };
      const answer = await sandbox.send("POST", "/v3/calendars/primary/events/watch", {
        headers: { authorization: `Bearer ${access_token}` },
        body,
      });
      return {
        calendarChannelId: id,
        calendarResourceId: ((await answer.json()) as { resourceId: string }).resourceId,
      };
    };
    await connect("ada", { more: { metadata: await watch("script-1") } });
    expect((await remove("ada")).status).toBe(200);
    expect(requests("stop")).toBe(0);
    await connect("eve", { more: { metadata: await watch("script-2") } });
    await watching.makeAutomatic();
    expect((await remove("eve")).status).toBe(200);
    expect(live().map(({ id }) => id)).toEqual(["script-1"]);
  });

  it("C08 proceeds though the stop fails", async () => {
    const { connect, rpc, sandbox, remove, channels, sidecar } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    sandbox.behave({ answers: { stop: [{ kind: "error", status: 500, error: "backendError" }] } });
    expect((await remove("ada")).status).toBe(200);
    expect((await channels()).map(({ state }) => state)).toEqual([State.STOPPING]);
    expect(
      sidecar.logged.some((line) => line.includes('"level":"error"') && line.includes("could not stop a channel")),
    ).toBe(true);
  });

  it("C08 proceeds within ten seconds though the stop hangs", async () => {
    const { connect, rpc, sandbox, remove, sidecar } = await startWatching();
    await connect("ada");
    await rpc().createChannel({ connection: primary() });
    sandbox.behave({ answers: { stop: [{ kind: "silent" }] } });
    const elapsed = startStopwatch();
    expect((await remove("ada")).status).toBe(200);
    expect(elapsed.ms).toBeLessThan(11_500);
    expect(elapsed.passedMs).toBeGreaterThan(9_000);
    await expect(sidecar.client(ConnectionService).getConnection({ ref: primary() })).rejects.toMatchObject({
      code: 5,
    });
  });

  it("C09 of another client's channel is not fatal: latchkey asks once and waits for its expiry", async () => {
    const { connect, rpc, sandbox, clock, keep, requests, channels, live } = await startWatching();
    sandbox.register({ id: "other", secret: "other-secret" });
    await connect("ada");
    const first = (await rpc().createChannel({ connection: primary() })).channel;
    await connect("ada", { client: "other" });
    const { channel } = await rpc().renewChannel({ environment: "dev", id: first?.id ?? "" });
    expect(channel?.state).toBe(State.ACTIVE);
    expect(requests("stop")).toBe(1);
    const old = (await channels()).find(({ id }) => id === first?.id);
    expect([old?.state, old?.stateReason]).toEqual([State.STOPPING, "status_403_forbidden"]);
    for (let i = 0; i < 5; i += 1) {
      clock.pass(10 * 60_000);
      await keep();
    }
    expect(requests("stop")).toBe(1);
    expect(live()).toHaveLength(2);
    clock.pass(7.1 * dayMs);
    await keep();
    expect(stateIn(await channels(), first?.id)).toBe("STATE_EXPIRED");
  });
});
