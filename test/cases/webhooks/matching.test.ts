import { expect, test } from "vitest";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { calendarUri, startReceiving } from "../../support/sidecar/receiving.ts";

const bodies = (seen: readonly { readonly body: string }[]) => seen.map(({ body }) => JSON.parse(body));
const ids = (seen: readonly { readonly body: string }[]) => bodies(seen).map(({ connectionId }) => connectionId);

test("W10 a notification without a match is delivered once, without the key connectionId", async () => {
  const { application, notifyOf } = await startReceiving();
  expect(await notifyOf(calendarUri("nobody@example.com"), 10)).toBe(200);
  const [delivered] = await application.got(1);
  expect(delivered?.body).toBe(
    '{"from":"calendar","providerConfigKey":"calendar","type":"forward","payload":{' +
      '"x-cal-channel-id":"channel-1","x-cal-resource-id":"resource-1",' +
      `"x-cal-resource-uri":"${calendarUri("nobody@example.com")}",` +
      '"x-cal-resource-state":"exists","x-cal-message-number":"10"}}',
  );
});

test("W11 a URI that 1,000 connections list causes 1,000 deliveries, each with its connection", async () => {
  const { sidecar, application, notifyOf } = await startReceiving();
  const uri = calendarUri("shared");
  const lines = Array.from({ length: 1_000 }, (_, i) => i);
  for (let from = 0; from < lines.length; from += 100) {
    await Promise.all(
      lines.slice(from, from + 100).map((i) =>
        sidecar.rest("POST", "/connections", {
          body: {
            provider_config_key: "calendar",
            connection_id: `user-${i}`,
            credentials: { type: "OAUTH2", access_token: "token" },
            metadata: { calendarWatchResourceUris: [uri] },
          },
        }),
      ),
    );
  }
  expect(await notifyOf(uri)).toBe(200);
  const seen = await application.got(1_000, 30_000);
  expect(new Set(ids(seen)).size).toBe(1_000);
  expect(new Set(seen.map(({ headers }) => headers["webhook-id"])).size).toBe(1_000);
});

test.each([
  ["%40 for @", calendarUri("ada%40example.com"), calendarUri("ada@example.com")],
  ["case", calendarUri("Ada"), calendarUri("ada")],
  ["the query", calendarUri("ada"), calendarUri("ada").replace("?alt=json", "")],
  [
    "a slash at the end",
    "https://calendar.example/v3/calendars/ada/events",
    "https://calendar.example/v3/calendars/ada/events/",
  ],
])("W12 a listed URI that differs by %s is another; the primary look-up follows", async (_, listed, sent) => {
  const { application, connect, notifyOf } = await startReceiving();
  await connect("listed", { metadata: { calendarWatchResourceUris: [listed] } });
  const primary = decodeURIComponent(/calendars\/([^/]*)/.exec(sent)?.[1] ?? "");
  await connect("primary", { metadata: { emailAddress: primary } });
  await notifyOf(sent);
  expect(ids(await application.got(1))).toEqual(["primary"]);
});

test("W12 a listed URI matches byte for byte, whatever the form of its characters", async () => {
  const { application, connect, notify } = await startReceiving();
  const composed = calendarUri("J\u00fcrgen");
  const decomposed = calendarUri("Ju\u0308rgen");
  await connect("composed", { metadata: { calendarWatchResourceUris: [composed] } });
  await connect("decomposed", { metadata: { calendarWatchResourceUris: [decomposed] } });
  for (const [number, uri] of [composed, decomposed].entries()) {
    // Fetch takes one character a byte.
    const bytes = Buffer.from(uri).toString("latin1");
    await notify({
      headers: { "x-cal-channel-id": "c", "x-cal-resource-uri": bytes, "x-cal-message-number": `${number}` },
    });
  }
  const seen = bodies(await application.got(2)).toSorted((a, b) => (a.connectionId < b.connectionId ? -1 : 1));
  expect(seen.map(({ connectionId, payload }) => [connectionId, payload["x-cal-resource-uri"]])).toEqual([
    ["composed", composed],
    ["decomposed", decomposed],
  ]);
});

test("W13 a list that holds only a secondary URI leaves the primary one to the look-up by address", async () => {
  const { application, connect, notifyOf } = await startReceiving();
  await connect("ada", {
    metadata: { calendarWatchResourceUris: [calendarUri("team")] },
    connection_config: { emailAddressHash: emailHash("ada@example.com") },
  });
  await notifyOf(calendarUri("ada%40example.com"), 1);
  await notifyOf(calendarUri("team"), 2);
  expect(ids(await application.got(2))).toEqual(["ada", "ada"]);
});

test("W14 of hash, emailAddress and email the first that finds anything wins, alone", async () => {
  const { application, connect, notifyOf } = await startReceiving();
  const mail = "ada@example.com";
  await connect("by-email", { metadata: { email: mail } });
  await notifyOf(calendarUri(mail), 1);
  await connect("by-address", { metadata: { emailAddress: mail } });
  await notifyOf(calendarUri(mail), 2);
  await connect("by-hash", { connection_config: { emailAddressHash: emailHash(mail) } });
  await notifyOf(calendarUri(mail), 3);
  await connect("by-list", { metadata: { calendarWatchResourceUris: [calendarUri(mail)] } });
  await connect("by-list-too", { metadata: { calendarWatchResourceUris: [calendarUri(mail)] } });
  await notifyOf(calendarUri(mail), 4);
  const found = bodies(await application.got(5)).map(({ connectionId, payload }) => [
    payload["x-cal-message-number"],
    connectionId,
  ]);
  expect(found.toSorted()).toEqual([
    ["1", "by-email"],
    ["2", "by-address"],
    ["3", "by-hash"],
    ["4", "by-list"],
    ["4", "by-list-too"],
  ]);
});

test("W15 the match at receipt is delivered, whatever happens to the connection", async () => {
  const { sidecar, application, connect, notifyOf } = await startReceiving();
  await connect("ada", { metadata: { emailAddress: "ada@example.com" } });
  await connect("bob", { metadata: { emailAddress: "bob@example.com" } });
  application.answer = (_, response) => void response.writeHead(500).end();
  await notifyOf(calendarUri("ada@example.com"), 1);
  await notifyOf(calendarUri("bob@example.com"), 2);
  await application.got(2);
  await sidecar.rest("PATCH", "/connections/metadata", {
    body: { connection_id: "ada", provider_config_key: "calendar", metadata: { emailAddress: "eve@example.com" } },
  });
  await sidecar.rest("DELETE", "/connections/bob?provider_config_key=calendar");
  application.answer = (_, response) => void response.end();
  // The first wait is five seconds, and up to a fifth more.
  const again = (await application.got(5)).slice(2).filter(({ body }) => body.includes('"forward"'));
  expect(ids(again).toSorted()).toEqual(["ada", "bob"]);
});

test("W09 numbers are passed on unchanged", async () => {
  const { application, notifyOf, notify } = await startReceiving();
  const numbers = ["1", "10", "7", "18446744073709551616", "abc"];
  for (const number of numbers) expect(await notifyOf(calendarUri("ada"), number)).toBe(200);
  expect((await notify({ headers: { "x-cal-channel-id": "channel-1", "x-cal-resource-state": "sync" } })).status).toBe(
    200,
  );
  const seen = bodies(await application.got(6)).map(({ payload }) => payload["x-cal-message-number"]);
  expect(seen.toSorted()).toEqual([...numbers, undefined].toSorted());
});
