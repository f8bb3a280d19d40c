import { describe, expect, it } from "vitest";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { codeOf, dayMs, hourMs, provider, State, startWatching } from "./channels.ts";

const minuteMs = 60_000;
const graceMs = 5 * minuteMs;

type Options = Parameters<typeof startWatching>[0];

/** A channel that is kept and has received a notification. */
async function watched(options: Options = {}) {
  const watching = await startWatching({ automatic: true, ...options });
  const { connect, keep, forwards, sandbox, clock } = watching;
  await connect("ada");
  await keep();
  await expect.poll(() => forwards("forward").length).toBe(1);
  let heard = 1;
  return {
    ...watching,
    /** Makes this number of changes and waits until the application has received them. */
    async changes(count = 1) {
      heard += count;
      sandbox.changeCalendar("ada@example.com", count);
      await expect.poll(() => forwards("forward").length).toBe(heard);
    },
    /** Makes this number of changes whose notifications are dropped. */
    unheard(count: number) {
      sandbox.behave({ notifications: "dropped" });
      sandbox.changeCalendar("ada@example.com", count);
      sandbox.behave({ notifications: "sent" });
    },
    /** Looks, waits for as long as a message may be late, and looks again. */
    async looks() {
      await keep();
      clock.pass(graceMs);
      await keep();
    },
    told: () => forwards("channel").map(({ operation, error }) => [operation, error.type]),
    alerts: (kind: string) => watching.sidecar.metric(`latchkey_channel_alerts_total{kind="${kind}"}`),
    async logs(operation: string) {
      const { logs } = await watching.sidecar
        .client(LogService)
        .listLogs({ environment: "dev", integration: provider, connectionId: "ada", operation });
      return logs;
    },
    catchUpBy: (...catchUpSyncs: readonly string[]) =>
      watching.sidecar.client(IntegrationService).updateIntegration({
        integration: {
          environment: "dev",
          key: provider,
          provider,
          channels: { automatic: true, catchUpSyncs: [...catchUpSyncs] },
        },
        updateMask: { paths: ["channels"] },
      }),
  };
}

describe("a channel that lost notifications", () => {
  it("is reported once, in a log and a metric, and the named syncs are triggered", async () => {
    const { changes, unheard, looks, told, alerts, logs, catchUpBy, forwards, current, sidecar, restart } =
      await watched();
    await catchUpBy("events", "attendees");
    await changes(2);
    unheard(3);
    await changes();
    await looks();
    await expect.poll(told).toEqual([["gap", "numbers_missing"]]);
    expect(forwards("channel")[0]).toMatchObject({
      from: "latchkey",
      success: false,
      connectionId: "ada",
      providerConfigKey: provider,
      channel: { id: (await current())?.id, state: "active" },
    });
    expect(await alerts("gap")).toBe(1);
    const [log] = await logs("channel.gap");
    expect(log).toMatchObject({ failed: true, lines: [{ fields: { code: "numbers_missing" } }] });
    await looks();
    const asked = await logs("sync.catch_up");
    expect(asked.map(({ lines }) => lines.map(({ fields }) => [fields?.["key"], fields?.["code"]]))).toEqual([
      [
        ["events", "numbers_missing"],
        ["attendees", "numbers_missing"],
      ],
    ]);
    expect(await sidecar.metric('latchkey_channel_catch_ups_total{outcome="asked"}')).toBe(1);
    await changes(3);
    await looks();
    await restart();
    await looks();
    await looks();
    expect(told()).toHaveLength(1);
    expect(await logs("sync.catch_up")).toHaveLength(1);
  });

  it("is not reported for late, repeated or burst messages, nor for a provider that skips numbers", async () => {
    const one = await watched();
    one.sandbox.behave({ notificationCopies: 3 });
    one.sandbox.changeCalendar("ada@example.com", 40);
    await expect.poll(() => one.forwards("forward").length).toBe(41);
    await one.looks();
    expect(one.told()).toEqual([]);
    const other = await watched({ rules: { sequential_numbers: false } });
    other.sandbox.behave({ messageNumberStep: 1_000 });
    for (let i = 0; i < 3; i += 1) {
      await other.changes();
      await other.looks();
    }
    expect(other.told()).toEqual([]);
  });

  it("is not reported if the missing messages arrive after all", async () => {
    const { sandbox, changes, unheard, keep, clock, told, forwards } = await watched();
    await changes();
    unheard(1);
    await changes();
    await keep();
    clock.pass(graceMs - 1);
    const { address, token, id } = JSON.parse(String(sandbox.seen().last.watch?.[0]?.body));
    const headers = { "x-cal-channel-id": id, "x-cal-channel-token": token, "x-cal-message-number": "3" };
    expect((await fetch(address, { method: "POST", headers })).status).toBe(200);
    await expect.poll(() => forwards("forward").length).toBe(4);
    clock.pass(dayMs / 24);
    await keep();
    expect(told()).toEqual([]);
  });

  it("is reported although the channel was replaced in the meantime", async () => {
    const { clock, changes, unheard, keep, told, rpc, current } = await watched();
    await changes();
    unheard(1);
    await changes();
    await keep();
    await rpc().renewChannel({ environment: "dev", id: (await current())?.id ?? "" });
    clock.pass(graceMs);
    await keep();
    await expect.poll(told).toEqual([["gap", "numbers_missing"]]);
  });
});

describe("a channel that falls silent", () => {
  it("is reported, triggers the syncs, and replaces the channel by a working one", async () => {
    const { changes, keep, clock, told, current, live, logs, catchUpBy, alerts, sandbox } = await watched();
    await catchUpBy("events");
    for (let hour = 0; hour < 10; hour += 1) {
      clock.pass(hourMs);
      await changes();
      await keep();
    }
    const silent = await current();
    sandbox.behave({ notifications: "dropped" });
    sandbox.changeCalendar("ada@example.com");
    sandbox.behave({ notifications: "sent" });
    clock.pass(4 * hourMs);
    await keep();
    expect(told()).toEqual([]);
    clock.pass(2 * hourMs);
    await keep();
    await expect.poll(told).toEqual([["silent", "beyond_its_rhythm"]]);
    expect(await alerts("silent")).toBe(1);
    const next = await current();
    expect(next?.previousId).toBe(silent?.id);
    expect(live().map(({ id }) => id)).toEqual([next?.id]);
    await keep();
    expect((await logs("sync.catch_up")).map(({ lines }) => lines[0]?.fields?.["code"])).toEqual(["beyond_its_rhythm"]);
    for (let hour = 0; hour < 4; hour += 1) {
      clock.pass(hourMs);
      await keep();
    }
    expect(told()).toHaveLength(1);
  });

  it("is reported once for a channel that never receives anything", async () => {
    const { connect, keep, clock, sandbox, forwards, requests } = await startWatching({ automatic: true });
    sandbox.behave({ notifications: "dropped" });
    await connect("ada");
    await keep();
    await keep();
    clock.pass(11 * minuteMs);
    await keep();
    const told = () => forwards("channel").map(({ operation, error }) => [operation, error.type]);
    await expect.poll(told).toEqual([["silent", "never_heard"]]);
    for (let day = 0; day < 14; day += 1) {
      clock.pass(dayMs);
      await keep();
    }
    expect(told()).toHaveLength(1);
    expect(requests("watch")).toBe(3);
  });
});

it("a channel that ran out unseen is caught up with once there is another", async () => {
  const { sandbox, clock, keep, told, logs, catchUpBy, current } = await watched();
  await catchUpBy("events");
  sandbox.behave({ answers: { watch: [{ kind: "error", status: 503, error: "backendError" }] } });
  clock.pass(5.96 * dayMs);
  for (let hour = 0; hour < 30; hour += 1) {
    await keep();
    clock.pass(hourMs);
  }
  await keep();
  expect(await current()).toBeUndefined();
  expect(await logs("sync.catch_up")).toEqual([]);
  sandbox.behave({ answers: { watch: [] } });
  clock.pass(1.3 * hourMs);
  await keep();
  expect(await current()).toMatchObject({ state: State.ACTIVE });
  await keep();
  await keep();
  expect((await logs("sync.catch_up")).map(({ lines }) => lines[0]?.fields?.["code"])).toEqual(["expired"]);
  await expect.poll(() => told().map(([operation]) => operation)).toEqual(["renewal_failed", "expired"]);
});

it("names of syncs to catch up by are checked", async () => {
  const { catchUpBy } = await watched();
  expect(await codeOf(catchUpBy("events", "events"))).toBe("invalid_argument");
  expect(await codeOf(catchUpBy(""))).toBe("invalid_argument");
  expect(await codeOf(catchUpBy(...Array.from({ length: 21 }, (_, i) => `s${i}`)))).toBe("invalid_argument");
  expect(await codeOf(catchUpBy("events"))).toBe("ok");
});
