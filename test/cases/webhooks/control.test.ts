import { createHmac } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import {
  Forward_StateSchema,
  type ForwardFilterSchema,
  Forward_State as State,
  WebhookService,
} from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { startApplication } from "../../support/peers/application.ts";
import { type HarnessOptions, secretKey } from "../../support/sidecar/harness.ts";
import { calendarUri, startReceiving } from "../../support/sidecar/receiving.ts";

const environment = "dev";
const nowhere = { LATCHKEY_FORWARD_URL: "" };

interface Sent {
  readonly integration?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly environment?: string;
}

const notificationOf = ({ headers = {}, body = "", ...rest }: Sent) => ({
  environment,
  integration: "calendar",
  ...rest,
  headers: Object.entries(headers).map(([name, value]) => ({ name, value: Buffer.from(value) })),
  body: Buffer.from(body),
});

async function controlling(options: HarnessOptions = {}) {
  const receiving = await startReceiving(options);
  const client = () => receiving.sidecar.client(WebhookService);
  let number = 0;
  const send = async (sent: Sent) => {
    const { notification } = await client().sendTestNotification(notificationOf(sent));
    return notification?.id ?? "";
  };
  /** A calendar's notification, each another message. */
  const sendOf = (email: string, more: Sent = {}) => {
    number += 1;
    const headers = {
      "x-cal-resource-uri": calendarUri(email),
      "x-cal-channel-id": "channel",
      "x-cal-message-number": String(number),
    };
    return send({ headers, ...more });
  };
  const explain = (sent: Sent) => client().explainWebhook(notificationOf(sent));

  /** The ids of all pages, the newest first. */
  async function listed(filter: object = {}, pageSize = 0, between = async () => {}): Promise<string[]> {
    const ids: string[] = [];
    for (let pageToken = ""; ; ) {
      const page = await client().listNotifications({ environment, ...filter, pageSize, pageToken });
      ids.push(...page.notifications.map(({ id }) => id));
      if (page.nextPageToken === "") return ids;
      pageToken = page.nextPageToken;
      await between();
    }
  }
  async function forwarded(filter: MessageInitShape<typeof ForwardFilterSchema> = {}, pageSize = 0) {
    const all = [];
    for (let pageToken = ""; ; ) {
      const page = await client().listForwards({ environment, filter, pageSize, pageToken });
      all.push(...page.forwards);
      if (page.nextPageToken === "") return all;
      pageToken = page.nextPageToken;
    }
  }
  const statesBecome = (...states: readonly State[]) =>
    expect.poll(async () => (await forwarded()).map(({ state }) => state)).toEqual(states);
  return { ...receiving, receiving, client, send, sendOf, explain, listed, forwarded, statesBecome };
}

const codeOf = (failed: Promise<unknown>): Promise<Code | undefined> =>
  failed.then(
    () => undefined,
    (error: unknown) => ConnectError.from(error).code,
  );

/** Two connections, each found by its address. */
async function connectTwo({ connect }: Awaited<ReturnType<typeof controlling>>): Promise<void> {
  for (const id of ["ada", "bob"]) await connect(id, { metadata: { email: `${id}@example.com` } });
}

describe("notifications", () => {
  it("are listed by every filter, alone and together, the newest first", async () => {
    let now = Date.parse("2026-11-22T00:00:00Z");
    const all = await controlling({ now: () => now, env: nowhere });
    const { sendOf, listed, integrate, client } = all;
    await connectTwo(all);
    await integrate("private-api-key");
    const sent: string[] = [];
    for (const [email, more] of [
      ["ada@example.com", {}],
      ["bob@example.com", {}],
      ["nobody@example.com", {}],
      ["nobody@example.com", { integration: "private-api-key" }],
      ["ada@example.com", {}],
    ] as const) {
      sent.push(await sendOf(email, more));
      now += 60_000;
    }
    const [first, bobs, stranger, keyed, last] = sent;
    const at = (minutes: number) => timestampFromMs(Date.parse("2026-11-22T00:00:00Z") + minutes * 60_000);
    const ada = { integration: "calendar", connectionId: "ada" };
    expect(await listed()).toEqual([last, keyed, stranger, bobs, first]);
    expect(await listed({ integration: "calendar" })).toEqual([last, stranger, bobs, first]);
    expect(await listed({ integration: "private-api-key" })).toEqual([keyed]);
    expect(await listed({ integration: "none" })).toEqual([]);
    expect(await listed(ada)).toEqual([last, first]);
    expect(await listed({ ...ada, connectionId: "eve" })).toEqual([]);
    expect(await listed({ unmatched: true })).toEqual([keyed, stranger]);
    expect(await listed({ unmatched: true, integration: "calendar" })).toEqual([stranger]);
    expect(await listed({ ...ada, unmatched: true })).toEqual([]);
    // `since` is inclusive, `until` exclusive.
    expect(await listed({ since: at(2) })).toEqual([last, keyed, stranger]);
    expect(await listed({ until: at(2) })).toEqual([bobs, first]);
    expect(await listed({ since: at(1), until: at(4), integration: "calendar" })).toEqual([stranger, bobs]);
    expect(await listed({ ...ada, since: at(1) })).toEqual([last]);
    expect(await listed({ ...ada, until: at(4) })).toEqual([first]);
    expect(await listed({ since: at(9) })).toEqual([]);
    expect(await codeOf(client().listNotifications({ environment, connectionId: "ada" }))).toBe(Code.InvalidArgument);
  });

  it("are all on pages of any size, each once, also while others come", async () => {
    const all = await controlling({ env: nowhere });
    const { sendOf, listed } = all;
    await connectTwo(all);
    const sent: string[] = [];
    for (let i = 0; i < 7; i += 1) sent.unshift(await sendOf(i % 2 === 0 ? "ada@example.com" : "bob@example.com"));
    const adas = sent.filter((_, i) => i % 2 === 0);
    const ofAda = { integration: "calendar", connectionId: "ada" };
    for (const size of [1, 2, 3, 7, 1_000]) {
      expect(await listed({}, size)).toEqual(sent);
      expect(await listed(ofAda, size)).toEqual(adas);
    }
    expect(await listed({}, 2, async () => void (await sendOf("ada@example.com")))).toEqual(sent);
    expect(await listed(ofAda, 1, async () => void (await sendOf("ada@example.com")))).toHaveLength(7);
  });

  it("are listed once for a connection whose notifications go to two addresses, beside its events", async () => {
    const [first, second] = [await startApplication(), await startApplication()];
    const forward = { url: first.url, secondary: second.url };
    const all = await controlling({
      env: { ...nowhere, LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": JSON.stringify({ environments: [{ name: environment, forward }] }) },
    });
    const { sendOf, listed, forwarded, connect, client, sidecar, statesBecome } = all;
    await connectTwo(all);
    const before = await sendOf("ada@example.com");
    // The deletion of the connection is an event among its deliveries, without a notification.
    const gone = await sidecar.rest("DELETE", "/connections/ada?provider_config_key=calendar");
    expect(gone.status).toBe(200);
    await connect("ada", { metadata: { email: "ada@example.com" } });
    const after = await sendOf("ada@example.com");
    await statesBecome(...Array.from({ length: 6 }, () => State.DELIVERED));
    const ofAda = { integration: "calendar", connectionId: "ada" };
    for (const size of [1, 2, 3, 100]) expect(await listed(ofAda, size)).toEqual([after, before]);
    expect((await forwarded(ofAda)).map(({ type }) => type)).toEqual([
      "forward",
      "forward",
      "auth",
      "auth",
      "forward",
      "forward",
    ]);
    const { notification, forwards } = await client().getNotification({ environment, id: after });
    expect(notification?.matches).toMatchObject([{ environment, ...{ integration: "calendar", id: "ada" } }]);
    expect(forwards.map(({ destination }) => destination).toSorted()).toEqual([first.url, second.url].toSorted());
  });

  it("are listed once also if their two deliveries are on different pages", async () => {
    const [first, second] = [await startApplication(), await startApplication()];
    const fileOf = (forward: object) => JSON.stringify({ environments: [{ name: environment, forward }] });
    const files = { "/latchkey.yaml": fileOf({ url: first.url, secondary: second.url }) };
    const all = await controlling({ env: { ...nowhere, LATCHKEY_CONFIG: "/latchkey.yaml" }, files });
    await connectTwo(all);
    const sent: string[] = [];
    for (let i = 0; i < 12; i += 1) sent.unshift(await all.sendOf("ada@example.com"));
    // Without its second address, later notifications have one delivery: a page of twenty ends within a pair.
    files["/latchkey.yaml"] = fileOf({ url: first.url });
    await all.receiving.restart();
    sent.unshift(await all.sendOf("ada@example.com"));
    const ofAda = { integration: "calendar", connectionId: "ada" };
    for (const size of [1, 5, 100]) expect(await all.listed(ofAda, size)).toEqual(sent);
  });

  it("of an integration that delivers nothing are still found by their connection", async () => {
    const all = await controlling();
    await connectTwo(all);
    await all.sidecar.client(IntegrationService).updateIntegration({
      integration: { environment, key: "calendar", noForward: true },
      updateMask: { paths: ["no_forward"] },
    });
    const id = await all.sendOf("ada@example.com");
    await all.sendOf("bob@example.com");
    expect(await all.forwarded()).toEqual([]);
    expect(await all.listed({ integration: "calendar", connectionId: "ada" })).toEqual([id]);
  });

  it("are shown whole one by one, and in lists without their body, each with its revision", async () => {
    const { send, client } = await controlling({ env: nowhere });
    const headers = { "X-Cal-Note": "Größe", "x-other": "not passed on" };
    const id = await send({ headers, body: "\xff\0" });
    const { notification, forwards } = await client().getNotification({ environment, id });
    expect(notification).toMatchObject({ id, environment, integration: "calendar", provider: "calendar" });
    expect(notification?.headers.map(({ name, value }) => [name, Buffer.from(value).toString()])).toEqual([
      ["x-cal-note", "Größe"],
    ]);
    expect(Buffer.from(notification?.body ?? [])).toEqual(Buffer.from("\xff\0"));
    expect([notification?.matchedRule, notification?.matches]).toEqual([-1, []]);
    const page = await client().listNotifications({ environment });
    expect(page.notifications[0]?.body).toHaveLength(0);
    expect(page.notifications[0]?.revision).toBe(notification?.revision);
    const [listed] = (await client().listForwards({ environment })).forwards;
    expect(listed?.revision).toBeGreaterThan(0n);
    expect(listed?.revision).toBe(forwards[0]?.revision);
    expect(forwards).toMatchObject([{ state: State.NO_DESTINATION, destination: "" }]);
  });
});

describe("deliveries", () => {
  it("are listed by every filter, and in every state", async () => {
    let now = Date.parse("2026-11-22T00:00:00Z");
    const all = await controlling({ now: () => now });
    const { sendOf, forwarded, application, client, statesBecome } = all;
    await connectTwo(all);
    await all.integrate("private-api-key");
    // One is delivered, one waits, one is given up.
    await sendOf("ada@example.com");
    await statesBecome(State.DELIVERED);
    now += 60_000;
    application.answer = (_, response) => void response.writeHead(503, { "retry-after": "86400" }).end();
    await sendOf("bob@example.com");
    await expect.poll(async () => (await forwarded())[0]?.attemptCount).toBe(1);
    now += 60_000;
    await sendOf("nobody@example.com", { integration: "private-api-key" });
    await expect.poll(async () => (await forwarded())[0]?.attemptCount).toBe(1);
    const [keyed, bobs, adas] = (await forwarded()).map(({ id }) => id);
    const ids = async (filter: Parameters<typeof forwarded>[0]) => (await forwarded(filter, 1)).map(({ id }) => id);
    const at = (minutes: number) => timestampFromMs(Date.parse("2026-11-22T00:00:00Z") + minutes * 60_000);
    expect(await ids({})).toEqual([keyed, bobs, adas]);
    expect(await ids({ integration: "calendar" })).toEqual([bobs, adas]);
    expect(await ids({ integration: "calendar", connectionId: "ada" })).toEqual([adas]);
    expect(await ids({ states: [State.PENDING] })).toEqual([keyed, bobs]);
    expect(await ids({ states: [State.DELIVERED] })).toEqual([adas]);
    expect(await ids({ states: [State.DELIVERED, State.PENDING], integration: "calendar" })).toEqual([bobs, adas]);
    expect(await ids({ states: [State.DEAD] })).toEqual([]);
    expect(await ids({ destination: application.url })).toEqual([keyed, bobs, adas]);
    expect(await ids({ destination: "http://elsewhere.example" })).toEqual([]);
    expect(await ids({ since: at(1) })).toEqual([keyed, bobs]);
    expect(await ids({ until: at(1) })).toEqual([adas]);
    expect(await ids({ since: at(1), until: at(2), states: [State.PENDING] })).toEqual([bobs]);
    expect(await codeOf(client().listForwards({ environment, filter: { connectionId: "ada" } }))).toBe(
      Code.InvalidArgument,
    );
    // A delivery is paused if its address is: the store has no such state.
    application.answer = (_, response) => void response.writeHead(410).end();
    await client().replayForwards({ environment, ids: [keyed ?? ""] });
    await expect.poll(() => ids({ states: [State.PAUSED] })).toEqual([keyed, bobs]);
    expect(await ids({ states: [State.PENDING] })).toEqual([]);
    application.answer = (_, response) => void response.end();
    const { destination } = await client().resumeDestination({ environment, url: application.url });
    expect(destination).toMatchObject({ url: application.url, paused: false });
    await expect.poll(() => ids({ states: [State.DELIVERED] })).toContain(keyed);
  });

  it("are replayed by id, one by one, and by a filter", async () => {
    const { client, application, sidecar, sendOf } = await controlling();
    const home = { environment: "stage" };
    const environments = sidecar.client(EnvironmentService);
    await environments.createEnvironment({ name: "stage" });
    for (const key of ["one", "two"]) {
      const integration = { ...home, key, provider: "calendar" };
      await sidecar.client(IntegrationService).createIntegration({ integration });
    }
    for (const integration of ["one", "one", "two"]) await sendOf("nobody", { ...home, integration });
    const forwards = async (states: State[] = []) =>
      (await client().listForwards({ ...home, filter: { states } })).forwards.map(({ id }) => id);
    const [third = "", second = "", first = ""] = await forwards();
    const replay = (request: object) => client().replayForwards({ ...home, ...request });
    // There is still no destination.
    const { replayed, refused } = await replay({ ids: [first, "nothing"] });
    expect([replayed, refused[first]?.code, refused["nothing"]?.code]).toEqual([0n, "conflict", "not_found"]);
    await environments.updateEnvironment({
      environment: { name: "stage", forwardUrl: application.url },
      updateMask: { paths: ["forward_url"] },
    });
    expect(await replay({ ids: [third] })).toMatchObject({ replayed: 1n, refused: {} });
    await application.got(1);
    await expect.poll(() => forwards([State.DELIVERED])).toEqual([third]);
    expect(await replay({ filter: { states: [State.NO_DESTINATION], integration: "two" } })).toMatchObject({
      replayed: 0n,
    });
    const found = await replay({ filter: { states: [State.NO_DESTINATION], integration: "one" } });
    expect(found).toMatchObject({ replayed: 2n, refused: {} });
    await application.got(3);
    const ids = application.seen.map(({ headers }) => headers["webhook-id"]);
    expect([ids[0], ...ids.slice(1).toSorted()]).toEqual([third, ...[first, second].toSorted()]);
    await expect.poll(() => forwards([State.DELIVERED])).toHaveLength(3);
    // A delivered message is sent again, with the id that the application knows.
    const before = (await client().getForward({ ...home, id: first })).attempts.length;
    expect(await replay({ ids: [first] })).toMatchObject({ replayed: 1n });
    expect((await application.got(4)).at(-1)?.headers["webhook-id"]).toBe(first);
    await expect.poll(async () => (await client().getForward({ ...home, id: first })).attempts.length).toBe(before + 1);
    // Neither, or both.
    const filter = { states: [State.DEAD] };
    expect(await replay({ filter })).toMatchObject({ replayed: 0n, refused: {} });
    expect(await codeOf(replay({}))).toBe(Code.InvalidArgument);
    expect(await codeOf(replay({ ids: [first], filter }))).toBe(Code.InvalidArgument);
    expect(await codeOf(replay({ filter: { connectionId: "ada" } }))).toBe(Code.InvalidArgument);
    const { events } = await sidecar.client(LogService).listAuditEvents({ action: "forward.replay" });
    expect(events.map(({ targets }) => targets)).toEqual(expect.arrayContaining([["by filter"], [first]]));
  });
});

it("addresses are listed with their waiting deliveries; only an address in use can be resumed", async () => {
  const { client, application, sidecar } = await controlling();
  const one = await client().listDestinations({ environment });
  expect(one.destinations).toMatchObject([{ url: application.url, paused: false, pending: 0n }]);
  // Resuming a destination that is not paused changes nothing and is no error.
  const { destination } = await client().resumeDestination({ environment, url: application.url });
  expect(destination?.paused).toBe(false);
  const { events } = await sidecar.client(LogService).listAuditEvents({ action: "destination.resume" });
  expect(events).toEqual([]);
  expect(await codeOf(client().resumeDestination({ environment, url: "http://elsewhere.example" }))).toBe(
    Code.NotFound,
  );
  expect(await codeOf(client().resumeDestination({ environment, url: "" }))).toBe(Code.InvalidArgument);
});

it("a key needs the scope, and sees its own environment alone", async () => {
  const all = await controlling({ env: nowhere });
  const { sidecar, sendOf, forwarded } = all;
  const id = await sendOf("nobody");
  const [forward] = await forwarded();
  const environments = sidecar.client(EnvironmentService);
  await environments.createEnvironment({ name: "other" });
  const keyOf = async (of: string, scopes: Scope[]) => {
    const { secret } = await environments.createKey({ environment: of, scopes });
    return sidecar.client(WebhookService, secret);
  };
  const reader = await keyOf(environment, [Scope.CONNECTIONS_READ]);
  const stranger = await keyOf("other", [Scope.CONNECTIONS_READ, Scope.CONNECTIONS_WRITE]);
  const proxy = await keyOf(environment, [Scope.PROXY]);
  const own = sidecar.client(WebhookService, secretKey);
  const watch = async (client: typeof own) => {
    for await (const _ of client.watchNotifications({})) return;
  };
  const reads: Readonly<Record<string, (client: typeof own) => Promise<unknown>>> = {
    listNotifications: (client) => client.listNotifications({}),
    getNotification: (client) => client.getNotification({ id }),
    listForwards: (client) => client.listForwards({}),
    getForward: (client) => client.getForward({ id: forward?.id ?? "" }),
    listDestinations: (client) => client.listDestinations({}),
    explainWebhook: (client) => client.explainWebhook({ integration: "calendar" }),
  };
  const writes: typeof reads = {
    replayForwards: (client) => client.replayForwards({ ids: [forward?.id ?? ""] }),
    cancelForwards: (client) => client.cancelForwards({ ids: [forward?.id ?? ""] }),
    assignNotification: (client) => client.assignNotification({ id, connectionId: "ada" }),
    pauseDestination: (client) => client.pauseDestination({ url: "http://x.example" }),
    testDestination: (client) => client.testDestination({ url: "http://x.example" }),
    resumeDestination: (client) => client.resumeDestination({ url: "http://x.example" }),
    sendTestNotification: (client) => client.sendTestNotification({ integration: "calendar" }),
  };
  for (const [name, call] of Object.entries(reads)) {
    expect({ name, of: "proxy", code: await codeOf(call(proxy)) }).toMatchObject({ code: Code.PermissionDenied });
    expect({ name, of: "reader", code: await codeOf(call(reader)) }).toMatchObject({ code: undefined });
  }
  for (const [name, call] of Object.entries(writes)) {
    expect({ name, code: await codeOf(call(reader)) }).toMatchObject({ code: Code.PermissionDenied });
  }
  expect(await codeOf(watch(proxy))).toBe(Code.PermissionDenied);
  expect((await own.listNotifications({})).notifications).toHaveLength(1);
  // From another environment nothing is visible, also by id.
  expect((await stranger.listNotifications({})).notifications).toEqual([]);
  expect((await stranger.listForwards({})).forwards).toEqual([]);
  expect((await stranger.listDestinations({})).destinations).toEqual([]);
  expect(await codeOf(stranger.getNotification({ id }))).toBe(Code.NotFound);
  expect(await codeOf(stranger.getForward({ id: forward?.id ?? "" }))).toBe(Code.NotFound);
  expect(Object.values((await stranger.replayForwards({ ids: [forward?.id ?? ""] })).refused)[0]?.code).toBe(
    "not_found",
  );
  expect(await codeOf(stranger.assignNotification({ id, connectionId: "ada" }))).toBe(Code.NotFound);
  expect(await codeOf(stranger.explainWebhook({ integration: "calendar" }))).toBe(Code.NotFound);
  expect(await codeOf(stranger.sendTestNotification({ integration: "calendar" }))).toBe(Code.NotFound);
  const inMine = { environment };
  expect(await codeOf(stranger.listNotifications(inMine))).toBe(Code.PermissionDenied);
  expect(await codeOf(stranger.listForwards(inMine))).toBe(Code.PermissionDenied);
});

it("reports that a notification or delivery does not exist, or no longer exists", async () => {
  const { client } = await controlling();
  for (const id of ["0mwqz3wnm00008ba7235c", "..", `${environment}/x`]) {
    expect(await codeOf(client().getNotification({ environment, id }))).toBe(Code.NotFound);
    expect(await codeOf(client().getForward({ environment, id }))).toBe(Code.NotFound);
  }
  expect(await codeOf(client().getForward({ environment, id: "" }))).toBe(Code.InvalidArgument);
  expect(await codeOf(client().listNotifications({ environment: "none" }))).toBe(Code.NotFound);
  expect(await codeOf(client().listForwards({ environment: "none" }))).toBe(Code.NotFound);
  expect(await codeOf(client().sendTestNotification({ environment, integration: "none" }))).toBe(Code.NotFound);
  expect(await codeOf(client().explainWebhook({ environment, integration: "none" }))).toBe(Code.NotFound);
});

it("a watcher receives notifications and deliveries, of one integration or all, until the sidecar stops", async () => {
  const all = await controlling();
  const { sidecar, sendOf, send, client, integrate } = all;
  await connectTwo(all);
  await integrate("private-api-key");
  const told = (integration: string) => {
    const steps: string[] = [];
    const watching = async () => {
      for await (const { event } of client().watchNotifications({ environment, integration })) {
        if (event.case === undefined) continue;
        const { integration: of } = event.value;
        const what =
          event.case === "forward"
            ? `forward ${Forward_StateSchema.value[event.value.state]?.localName}`
            : "notification";
        expect(event.value.body).toHaveLength(0);
        steps.push(`${of} ${what}`);
      }
    };
    return { steps, ended: codeOf(watching()) };
  };
  const [everything, calendar] = [told(""), told("calendar")];
  // Each one watches two collections.
  await expect.poll(() => sidecar.metric("latchkey_watchers_open")).toBe(4);
  await send({ integration: "private-api-key", body: "{}" });
  await expect.poll(() => everything.steps.length).toBe(3);
  await sendOf("ada@example.com");
  await expect.poll(() => everything.steps.length).toBe(6);
  const steps = ["notification", "forward PENDING", "forward DELIVERED"];
  expect(everything.steps).toEqual(
    ["private-api-key", "calendar"].flatMap((of) => steps.map((step) => `${of} ${step}`)),
  );
  expect(calendar.steps).toEqual(steps.map((step) => `calendar ${step}`));
  await sidecar.stop();
  expect(await Promise.all([everything.ended, calendar.ended])).toEqual([Code.Unavailable, Code.Unavailable]);
  expect(await sidecar.metric("latchkey_watchers_open")).toBe(0);
});

describe("a trial", () => {
  it("is taken as if its provider had sent it, counted as a trial, and not twice", async () => {
    const all = await controlling();
    const { sidecar, sendOf, application, send } = all;
    await connectTwo(all);
    await sendOf("ada@example.com");
    const [delivered] = await application.got(1);
    expect(JSON.parse(delivered?.body ?? "")).toMatchObject({
      type: "forward",
      connectionId: "ada",
      payload: { "x-cal-message-number": "1" },
    });
    expect(await sidecar.metric('latchkey_notifications_total{outcome="test"}')).toBe(1);
    expect(await sidecar.metric('latchkey_notifications_total{outcome="taken"}')).toBeUndefined();
    const headers = { "x-cal-channel-id": "channel", "x-cal-message-number": "1" };
    expect(await codeOf(send({ headers }))).toBe(Code.AlreadyExists);
  });

  it("is explained without being received: the rule and the matches", async () => {
    const all = await controlling({ env: nowhere });
    const { explain, connect, integrate, listed } = all;
    const watched = calendarUri("team");
    await connect("lists", { metadata: { calendarWatchResourceUris: [watched] } });
    await connect("hashed", { connection_config: { emailAddressHash: emailHash("h@example.com") } });
    await connect("address", { metadata: { emailAddress: "a@example.com" } });
    await connect("mail", { metadata: { email: "m@example.com" } });
    const reached = async (sent: Sent) => {
      const { matchedRule, field, matches, problem } = await explain(sent);
      return [matchedRule, field, matches.map(({ id }) => id).toSorted(), problem?.message];
    };
    const calendar = (uri: string) => reached({ headers: { "X-Cal-Resource-URI": uri } });
    expect(await calendar(watched)).toEqual([0, "metadata.calendarWatchResourceUris", ["lists"], undefined]);
    const found = (id: string) => calendar(calendarUri(`${id}@example.com`));
    expect(await found("h")).toEqual([1, "connection_config.emailAddressHash", ["hashed"], undefined]);
    expect(await found("a")).toEqual([2, "metadata.emailAddress", ["address"], undefined]);
    expect(await found("m")).toEqual([3, "metadata.email", ["mail"], undefined]);
    expect(await found("x")).toEqual([-1, "", [], undefined]);

    const oauth = { credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" } };
    const of = (provider: string, id: string, more: object) => connect(id, { provider_config_key: provider, ...more });
    for (const provider of ["google-drive", "google-mail", "slack", "github"]) await integrate(provider, oauth);
    // A file, by the id that its channel answers with.
    await of("google-drive", "watcher", { metadata: { driveResourceId: "resource-1" } });
    const drive = { "x-goog-channel-id": "new", "x-goog-resource-id": "resource-1" };
    expect(await reached({ integration: "google-drive", headers: drive })).toEqual([
      1,
      "metadata.driveResourceId",
      ["watcher"],
      undefined,
    ]);
    // A mailbox, by a field within the body.
    await of("google-mail", "box", { metadata: { email: "ada@example.com" } });
    const data = Buffer.from('{"emailAddress":"ada@example.com","historyId":7}').toString("base64");
    const mail = JSON.stringify({ message: { data, messageId: "1" }, subscription: "s" });
    expect((await reached({ integration: "google-mail", body: mail })).slice(0, 3)).toEqual([
      2,
      "metadata.email",
      ["box"],
    ]);
    // A workspace, by JSON and by a form.
    await of("slack", "team", { metadata: { teamId: "T1" } });
    const event = JSON.stringify({ team_id: "T1", event_id: "e" });
    expect(await reached({ integration: "slack", body: event })).toEqual([0, "metadata.teamId", ["team"], undefined]);
    const form = { "content-type": "application/x-www-form-urlencoded" };
    expect(await reached({ integration: "slack", headers: form, body: "team_id=T1&command=%2Fx" })).toEqual([
      1,
      "metadata.teamId",
      ["team"],
      undefined,
    ]);
    // An installation, by a number; with a secret it must be signed.
    await of("github", "installed", { connection_config: { installation_id: "42" } });
    const push = JSON.stringify({ installation: { id: 42 } });
    const installed = [0, "connection_config.installation_id", ["installed"]];
    expect(await reached({ integration: "github", body: push })).toEqual([...installed, undefined]);
    await all.sidecar.client(IntegrationService).updateIntegration({
      integration: { environment, key: "github", secrets: { webhookSecret: "github-secret" } },
      updateMask: { paths: ["secrets.webhook_secret"] },
    });
    const refused = "the sender of the webhook could not be verified";
    expect(await reached({ integration: "github", body: push })).toEqual([...installed, `${refused}: unsigned`]);
    const signed = (secret: string) => ({
      "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(push).digest("hex")}`,
    });
    expect(await reached({ integration: "github", headers: signed("github-secret"), body: push })).toEqual([
      ...installed,
      undefined,
    ]);
    expect(await reached({ integration: "github", headers: signed("another"), body: push })).toEqual([
      ...installed,
      `${refused}: wrong_signature`,
    ]);
    expect(await listed()).toEqual([]);
  });
});

describe("records", () => {
  it("are deleted after retention.deliveries, except waiting deliveries", async () => {
    let now = Date.now();
    const all = await controlling({
      now: () => now,
      env: { LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": "retention: { deliveries: 1d }" },
    });
    const { sendOf, application, listed, forwarded, client, sidecar, statesBecome } = all;
    await connectTwo(all);
    const delivered: string[] = [];
    for (let i = 0; i < 45; i += 1) delivered.unshift(await sendOf("ada@example.com"));
    const arrived = Array.from(delivered, () => State.DELIVERED);
    await statesBecome(...arrived);
    application.answer = (_, response) => void response.writeHead(410).end();
    const waiting = await sendOf("bob@example.com");
    await statesBecome(State.PAUSED, ...arrived);
    const { broker } = sidecar.sidecar;
    await broker.keepHouse();
    expect(await listed()).toEqual([waiting, ...delivered]);
    now += 24 * 3_600_000 + 1_000;
    await broker.keepHouse();
    expect(await listed()).toEqual([waiting]);
    expect((await forwarded()).map(({ notificationId }) => notificationId)).toEqual([waiting]);
    expect(await codeOf(client().getNotification({ environment, id: delivered[0] ?? "" }))).toBe(Code.NotFound);
    application.answer = (_, response) => void response.end();
    await client().resumeDestination({ environment, url: application.url });
    await statesBecome(State.DELIVERED);
    await broker.keepHouse();
    expect(await listed()).toEqual([]);
    expect(await forwarded()).toEqual([]);
  });

  it("are not shown, replayed or sent by a new environment with the name of an old one", async () => {
    let now = Date.now();
    const { sidecar, client, sendOf, application } = await controlling({ now: () => now });
    const environments = sidecar.client(EnvironmentService);
    const integrations = sidecar.client(IntegrationService);
    const home = { environment: "stage" };
    application.answer = (_, response) => void response.writeHead(500).end();
    await environments.createEnvironment({ name: "stage", forwardUrl: application.url });
    await integrations.createIntegration({ integration: { ...home, key: "calendar", provider: "calendar" } });
    const id = await sendOf("nobody", home);
    const forwards = async () => (await client().listForwards(home)).forwards;
    await expect.poll(async () => (await forwards())[0]?.attemptCount).toBe(1);
    const [former] = await forwards();
    now += 1_000;
    await integrations.deleteIntegration({ ...home, key: "calendar" });
    await environments.deleteEnvironment({ name: "stage" });
    now += 1_000;
    const other = await startApplication();
    await environments.createEnvironment({ name: "stage", forwardUrl: other.url });
    expect((await client().listNotifications(home)).notifications).toEqual([]);
    expect(await forwards()).toEqual([]);
    expect(await codeOf(client().getNotification({ ...home, id }))).toBe(Code.NotFound);
    expect(await codeOf(client().getForward({ ...home, id: former?.id ?? "" }))).toBe(Code.NotFound);
    const replayed = await client().replayForwards({ ...home, ids: [former?.id ?? ""] });
    expect(replayed.refused[former?.id ?? ""]?.code).toBe("not_found");
    const filter = { states: [State.PENDING, State.NO_DESTINATION] };
    expect((await client().replayForwards({ ...home, filter })).replayed).toBe(0n);
    // It becomes due and is not sent.
    now += 10_000;
    await expect.poll(() => sidecar.metric("latchkey_outbox_forwards")).toBe(0);
    expect(other.seen).toEqual([]);
    await sidecar.sidecar.broker.keepHouse();
  });
});
