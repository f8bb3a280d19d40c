import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { calendar as createClient } from "@googleapis/calendar";
import { expect, it, onTestFinished } from "vitest";
import type { SandboxOptions } from "../../../src/dev/sandbox/sandbox.ts";
import { bearer, started } from "./started.ts";

async function withToken(options: SandboxOptions = {}, scopes = ["calendar"]) {
  const sandbox = await started(options);
  const headers = bearer(sandbox.grant({ scopes }).access_token);
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await sandbox.send(method, path, { headers, ...(body === undefined ? {} : { body }) });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  return { ...sandbox, headers, ask };
}

interface Receiver {
  readonly address: string;
  /** The channel's headers of each notification, and its body. */
  readonly got: readonly (Readonly<Record<string, unknown>> & { readonly body: string })[];
}

async function receiver(
  statusOf: (count: number) => number = () => 200,
  location = "http://127.0.0.1:9/",
): Promise<Receiver> {
  const got: (Readonly<Record<string, unknown>> & { readonly body: string })[] = [];
  const server = http.createServer((request: IncomingMessage, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const own = Object.entries(request.headers).filter(([name]) => name.startsWith("x-cal-"));
      got.push({ ...Object.fromEntries(own), body });
      response.writeHead(statusOf(got.length), { location }).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhook`, got };
}

it("knows a user's primary calendar by the user's address", async () => {
  const { ask } = await withToken();
  expect((await ask("GET", "/v3/users/me/calendarList/primary")).body).toMatchObject({
    id: "ada@example.com",
    primary: true,
  });
  const { body } = await ask("GET", "/v3/users/me/calendarList");
  expect(body.items.map(({ id }: { id: string }) => id)).toEqual(["ada@example.com", "team-1@group.calendar.example"]);
  expect((await ask("GET", "/v3/users/me/calendarList/bob@example.com")).status).toBe(404);
});

it("lists events in pages, and with a sync token only the changes", async () => {
  const { ask } = await withToken();
  const events = "/v3/calendars/primary/events";
  const first = (await ask("GET", `${events}?maxResults=3`)).body;
  expect([first.items.length, first.nextSyncToken]).toEqual([3, undefined]);
  const rest = (await ask("GET", `${events}?maxResults=3&pageToken=${first.nextPageToken}`)).body;
  expect([rest.items.length, rest.nextPageToken]).toEqual([2, undefined]);

  const made = (
    await ask("POST", events, { summary: "New", start: { date: "2026-02-01" }, end: { date: "2026-02-02" } })
  ).body;
  await ask("PATCH", `${events}/event2`, { summary: "Moved" });
  await ask("DELETE", `${events}/event1`);
  const since = (await ask("GET", `${events}?syncToken=${rest.nextSyncToken}`)).body;
  expect(since.items.map(({ id, status, summary }: Record<string, string>) => [id, status, summary])).toEqual([
    [made.id, "confirmed", "New"],
    ["event2", "confirmed", "Moved"],
    ["event1", "cancelled", "Meeting 1"],
  ]);
  expect((await ask("GET", `${events}?syncToken=${since.nextSyncToken}`)).body.items).toEqual([]);
  expect((await ask("GET", events)).body.items).toHaveLength(5);
  expect((await ask("GET", `${events}?syncToken=garbage`)).status).toBe(410);
  expect((await ask("GET", `${events}/event1`)).status).toBe(410);
  expect((await ask("GET", `${events}/none`)).status).toBe(404);
  expect((await ask("PUT", `${events}/event3`, { summary: "Only this" })).body).not.toHaveProperty("start");
});

it("lets read-only scopes read and watch, but change nothing", async () => {
  const { ask } = await withToken({}, ["https://scopes.example/auth/calendar.readonly"]);
  expect((await ask("GET", "/v3/calendars/primary/events")).status).toBe(200);
  expect((await ask("POST", "/v3/calendars/primary/events", {})).status).toBe(403);
  expect((await ask("DELETE", "/v3/calendars/primary/events/event1")).status).toBe(403);
});

it("speaks with the calendar client of others, unmodified", async () => {
  const sandbox = await started();
  const { access_token } = sandbox.grant();
  const client = createClient({
    version: "v3",
    rootUrl: `${sandbox.origin}/`,
    headers: { authorization: `Bearer ${access_token}` },
  });
  const primary = await client.calendarList.get({ calendarId: "primary" });
  expect(primary.data.id).toBe("ada@example.com");
  const { data } = await client.events.insert({
    calendarId: "ada@example.com",
    requestBody: { summary: "By its SDK" },
  });
  const listed = await client.events.list({ calendarId: "primary", maxResults: 2_500 });
  expect(listed.data.items?.at(-1)).toMatchObject({ id: data.id, summary: "By its SDK" });
  const { address, got } = await receiver();
  const watched = await client.events.watch({
    calendarId: "primary",
    requestBody: { id: "by-sdk", type: "web_hook", address },
  });
  await expect.poll(() => got.length).toBe(1);
  const stopped = await client.channels.stop({
    requestBody: { id: "by-sdk", resourceId: watched.data.resourceId ?? "" },
  });
  expect(stopped.status).toBe(204);
  await expect(client.events.get({ calendarId: "primary", eventId: "none" })).rejects.toMatchObject({ status: 404 });
});

const watchPath = "/v3/calendars/ada%40example.com/events/watch";

it("sends a sync notification and then one for each change, numbered, without the change itself", async () => {
  const { ask, origin } = await withToken();
  const { address, got } = await receiver();
  const { status, body } = await ask("POST", watchPath, { id: "c-1", type: "web_hook", address, token: "secret" });
  expect(status).toBe(200);
  expect(body).toMatchObject({ id: "c-1", resourceUri: `${origin}/v3/calendars/ada%40example.com/events?alt=json` });
  expect(Number(body.expiration) - Date.now()).toBeGreaterThan(604_790_000);
  for (let i = 0; i < 3; i += 1) await ask("POST", "/v3/calendars/primary/events", { summary: `change ${i}` });
  await ask("POST", `/v3/calendars/${encodeURIComponent("team-1@group.calendar.example")}/events`, {});
  await expect.poll(() => got.length).toBe(4);
  const common = {
    "x-cal-channel-id": "c-1",
    "x-cal-channel-token": "secret",
    "x-cal-resource-id": body.resourceId,
    "x-cal-resource-uri": body.resourceUri,
    "x-cal-channel-expiration": new Date(Number(body.expiration)).toUTCString(),
    body: "",
  };
  expect(got).toEqual([
    { ...common, "x-cal-resource-state": "sync", "x-cal-message-number": "1" },
    { ...common, "x-cal-resource-state": "exists", "x-cal-message-number": "2" },
    { ...common, "x-cal-resource-state": "exists", "x-cal-message-number": "3" },
    { ...common, "x-cal-resource-state": "exists", "x-cal-message-number": "4" },
  ]);
});

it("notifies every channel of a calendar of another person's change", async () => {
  const { ask, changeCalendar, seen } = await withToken();
  const { address, got } = await receiver();
  for (const id of ["c-1", "c-2"]) await ask("POST", watchPath, { id, type: "webhook", address });
  changeCalendar("ada@example.com");
  changeCalendar("bob@example.com");
  await expect.poll(() => got.length).toBe(4);
  const changes = got.filter((one) => one["x-cal-resource-state"] === "exists");
  expect(changes.map((one) => one["x-cal-channel-id"]).sort()).toEqual(["c-1", "c-2"]);
  await expect.poll(() => seen().tallies.notificationsDelivered).toBe(4);
  expect(seen().channels).toMatchObject([
    { id: "c-1", messageNumber: 2 },
    { id: "c-2", messageNumber: 2 },
  ]);
});

it("stops a channel at once, by id and resource, for the app that created it", async () => {
  const { ask, send, changeCalendar, register, grant } = await withToken();
  const { address, got } = await receiver();
  const { resourceId } = (await ask("POST", watchPath, { id: "c-1", type: "web_hook", address })).body;
  await expect.poll(() => got.length).toBe(1);
  const stop = (body: unknown) => ask("POST", "/v3/channels/stop", body);
  expect((await stop({ id: "c-1", resourceId: "other" })).status).toBe(404);
  expect((await stop({ id: "c-2", resourceId })).status).toBe(404);
  register({ id: "other-app", secret: "s" });
  const other = bearer(grant({ client: "other-app" }).access_token);
  const foreign = await send("POST", "/v3/channels/stop", { headers: other, body: { id: "c-1", resourceId } });
  expect(foreign.status).toBe(403);
  expect((await stop({ id: "c-1", resourceId })).status).toBe(204);
  expect((await stop({ id: "c-1", resourceId })).status).toBe(404);
  changeCalendar("ada@example.com");
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(got.length).toBe(1);
  // Nor is the id good a second time.
  const again = await ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  expect([again.status, again.body.error.errors[0].reason]).toEqual([400, "channelIdNotUnique"]);
});

it("stops notifications when a channel expires, without renewal", async () => {
  let time = Date.now();
  const { ask, changeCalendar, seen } = await withToken({ now: () => time, behaviour: { accessTokenLifetimeS: 1e6 } });
  const { address, got } = await receiver();
  const expiration = time + 60_000;
  const { body } = await ask("POST", watchPath, { id: "c-1", type: "web_hook", address, expiration });
  expect(body.expiration).toBe(String(expiration));
  await expect.poll(() => got.length).toBe(1);
  time = expiration;
  changeCalendar("ada@example.com");
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect([got.length, seen().channels]).toEqual([1, []]);
  expect((await ask("POST", "/v3/channels/stop", { id: "c-1", resourceId: body.resourceId })).status).toBe(404);
});

it.each([
  ["C01 an id of 64 characters", { id: "x".repeat(64) }, 200, undefined],
  ["C01 an id of 65", { id: "x".repeat(65) }, 400, "channelIdInvalid"],
  ["C01 an empty id", { id: "" }, 400, "channelIdInvalid"],
  ["C01 an id that is not ASCII", { id: "ü" }, 400, "channelIdInvalid"],
  ["C01 no id", { id: undefined }, 400, "channelIdInvalid"],
  ["C10 an expiration in the past", { expiration: Date.now() - 1 }, 400, "channelExpirationInvalid"],
  ["C10 seconds", { expiration: 1_900_000_000 }, 400, "channelExpirationInvalid"],
  ["C10 more than a number holds", { expiration: "9007199254740993" }, 400, "channelExpirationInvalid"],
  ["C10 text", { expiration: String(Date.now() + 60_000) }, 200, undefined],
  ["C13 webhook", { type: "webhook" }, 200, undefined],
  ["another type", { type: "email" }, 400, "unknownChannelType"],
  ["an address without TLS elsewhere", { address: "http://app.example/" }, 400, "push.webhookUrlNotHttps"],
  ["no address", { address: undefined }, 400, "push.webhookUrlNotHttps"],
  ["a token of two lines", { token: "a\nb" }, 400, "invalid"],
])("takes or refuses a watch call: %s", async (_what, more, status, reason) => {
  const { ask } = await withToken();
  const { address } = await receiver();
  const answer = await ask("POST", watchPath, { id: "c-1", type: "web_hook", address, ...more });
  expect([answer.status, answer.body.error?.errors[0].reason]).toEqual([status, reason]);
});

it("holds an expiration to the most that it gives", async () => {
  const { ask } = await withToken({ behaviour: { maxChannelLifetimeS: 100, channelLifetimeS: 10 } });
  const { address } = await receiver();
  const lifeOf = async (more: object) =>
    Number((await ask("POST", watchPath, { type: "web_hook", address, ...more })).body.expiration) - Date.now();
  expect(Math.round((await lifeOf({ id: "c-1" })) / 1_000)).toBe(10);
  expect(Math.round((await lifeOf({ id: "c-2", expiration: Date.now() + 1e9 })) / 1_000)).toBe(100);
});

it("refuses a channel above the limit, and drops no live one", async () => {
  let time = Date.now();
  const { ask, changeCalendar, seen } = await withToken({ now: () => time, behaviour: { maxChannels: 2 } });
  const { address, got } = await receiver();
  const watch = (id: string, more = {}) => ask("POST", watchPath, { id, type: "web_hook", address, ...more });
  await watch("c-1", { expiration: time + 60_000 });
  const { resourceId } = (await watch("c-2")).body;
  const refused = await watch("c-3");
  expect([refused.status, refused.body.error.errors[0].reason]).toEqual([403, "quotaExceeded"]);
  changeCalendar("ada@example.com");
  await expect.poll(() => got.length).toBe(4);
  const ids = () => seen().channels.map(({ id }) => id);
  expect(ids()).toEqual(["c-1", "c-2"]);
  // A refused request does not use up its id; expired and stopped channels make room.
  time += 60_000;
  expect((await watch("c-3")).status).toBe(200);
  expect((await watch("c-4")).status).toBe(403);
  await ask("POST", "/v3/channels/stop", { id: "c-2", resourceId });
  expect((await watch("c-4")).status).toBe(200);
  expect(ids()).toEqual(["c-3", "c-4"]);
});

it("retries after 5xx, gives up after 4xx, and keeps the order", async () => {
  const { ask, changeCalendar, seen } = await withToken({ behaviour: { notificationRetryMs: 10 } });
  // The second and third request, of number 2, fail; the fifth, of number 3, is refused.
  const { address, got } = await receiver((count) => (count === 2 || count === 3 ? 503 : count === 5 ? 404 : 200));
  await ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  for (let i = 0; i < 3; i += 1) changeCalendar("ada@example.com");
  await expect.poll(() => got.length).toBe(6);
  expect(got.map((one) => one["x-cal-message-number"])).toEqual(["1", "2", "2", "2", "3", "4"]);
  await expect.poll(() => seen().tallies).toMatchObject({ notificationsDelivered: 3, notificationsFailed: 1 });
});

it("follows no redirect, and continues if the receiver is down", async () => {
  const { ask, changeCalendar, seen } = await withToken({ behaviour: { notificationAttempts: 1 } });
  const elsewhere = await receiver();
  const { address } = await receiver(() => 307, elsewhere.address);
  await ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  await ask("POST", watchPath, { id: "c-2", type: "web_hook", address: "http://127.0.0.1:9/" });
  await expect.poll(() => seen().tallies.notificationsFailed).toBe(2);
  changeCalendar("ada@example.com");
  await expect.poll(() => seen().tallies.notificationsFailed).toBe(4);
  expect(elsewhere.got).toEqual([]);
});

it("refuses to stop or watch, if configured", async () => {
  const { ask } = await withToken({
    behaviour: {
      answers: {
        watch: [{ kind: "error", error: "channelIdNotUnique", times: 1 }],
        stop: [{ kind: "error", status: 404, error: "notFound" }],
      },
    },
  });
  const { address } = await receiver();
  const watch = () => ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  expect((await watch()).status).toBe(400);
  const { body, status } = await watch();
  expect(status).toBe(200);
  expect((await ask("POST", "/v3/channels/stop", { id: "c-1", resourceId: body.resourceId })).status).toBe(404);
});

it("drops notifications, skips numbers and sends copies, if configured", async () => {
  const { ask, behave, send, seen } = await withToken();
  const { address, got } = await receiver();
  await ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  const change = (changes?: number) =>
    send("POST", "/_sandbox/calendar", { body: { user: "ada@example.com", ...(changes && { changes }) } });
  const numbers = () => got.map((one) => Number(one["x-cal-message-number"]));
  await expect.poll(numbers).toEqual([1]);
  behave({ notifications: "dropped" });
  expect((await change(3)).status).toBe(200);
  behave({ notifications: "sent", notificationCopies: 2 });
  await change();
  await expect.poll(numbers).toEqual([1, 5, 5]);
  behave({ notificationCopies: 1, messageNumberStep: 100 });
  await change(2);
  await expect.poll(numbers).toEqual([1, 5, 5, 105, 205]);
  expect(seen().tallies).toMatchObject({ notificationsDropped: 3, notificationsDelivered: 5 });
  expect((await change(1_001)).status).toBe(400);
  expect((await send("POST", "/_sandbox/calendar", { body: { user: "nobody" } })).status).toBe(400);
});

it("sends a burst of a thousand one after the other, and leaves none out", async () => {
  const { ask, changeCalendar } = await withToken();
  const { address, got } = await receiver();
  await ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  await expect.poll(() => got.length).toBe(1);
  changeCalendar("ada@example.com", 1_000);
  await expect.poll(() => got.length).toBe(1_001);
  expect(got.map((one) => Number(one["x-cal-message-number"]))).toEqual(Array.from({ length: 1_001 }, (_, i) => i + 1));
});

it("announces a channel before the watch call was answered, where the answer is held or lost", async () => {
  const { ask, behave, seen } = await withToken({
    behaviour: { answers: { watch: [{ kind: "ordinary", holdMs: 300, times: 1 }] } },
  });
  const { address, got } = await receiver();
  const answered = ask("POST", watchPath, { id: "c-1", type: "web_hook", address });
  await expect.poll(() => got.map((one) => one["x-cal-resource-state"])).toEqual(["sync"]);
  let isAnswered = false;
  void answered.then(() => (isAnswered = true));
  await Promise.resolve();
  expect(isAnswered).toBe(false);
  expect((await answered).status).toBe(200);
  behave({ answers: { watch: [{ kind: "drop-answer", times: 1 }] } });
  await expect(ask("POST", watchPath, { id: "c-2", type: "web_hook", address })).rejects.toThrow();
  await expect.poll(() => got.map((one) => one["x-cal-channel-id"])).toEqual(["c-1", "c-2"]);
  expect(seen().channels.map(({ id }) => id)).toEqual(["c-1", "c-2"]);
});
