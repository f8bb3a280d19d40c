import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { emailHash } from "../../../../src/core/notifications/email-hash.ts";
import type { Lookup } from "../../../../src/core/notifications/notification.ts";
import { payloadFormOf, payloadOf } from "../../../../src/core/notifications/payload.ts";
import { readingOf } from "../../../../src/core/notifications/reading.ts";
import { valuesOf } from "../../../../src/core/notifications/value-rule.ts";
import { notificationValues } from "../../../../src/core/notifications/values.ts";
import { StoredNotification_PayloadForm } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { LookupRule_Transform, type ValueRule, ValueRuleSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../../src/providers/catalogue.ts";
import { startStopwatch } from "../../../support/runner/stopwatch.ts";
import { knownRules, randomBytes, reading, replyTo, rulesOf } from "../../../support/wire/notifications.ts";

type Place = Partial<Omit<ValueRule, "$typeName" | "$unknown">>;
const values = (place: Place, sent: Parameters<typeof reading>[0]) =>
  valuesOf(create(ValueRuleSchema, place), reading(sent));

const shown = (lookups: readonly Lookup[]) => lookups.map(({ rule, field, values }) => ({ rule, field, values }));

const primary = "https://api.example/calendars/ada%40example.com/events?alt=json";

it("takes the segment after a mark, decoded, up to the next slash or question mark", () => {
  const after = (uri: string) =>
    values({ header: "x-uri", segmentAfter: "/calendars/" }, { headers: { "x-uri": uri } });
  expect(after(primary)).toEqual(["ada@example.com"]);
  expect(after("/calendars/a%2Fb?x")).toEqual(["a/b"]);
  expect(after("/calendars/last")).toEqual(["last"]);
  for (const none of [
    "/calendars//events",
    "/calendars/",
    "/calendars/%zz/events",
    "/calendars/%ff/e",
    "/other/x",
    "",
  ]) {
    expect({ none, found: after(none) }).toEqual({ none, found: [] });
  }
});

it("finds values in a header, a body, a query or a form, and none if missing or empty", () => {
  expect(values({ header: "x-a" }, { headers: { "x-a": "1" } })).toEqual(["1"]);
  expect(values({ query: "a b" }, { query: "x=1&a%20b=c+d%26&a+b=2" })).toEqual(["c d&"]);
  expect(values({ query: "a" }, { query: "a=%zz" })).toEqual([]);
  const form = { headers: { "content-type": "application/x-www-form-urlencoded; charset=utf-8" }, body: "a=1&a=2&b=" };
  expect(values({ form: "a" }, form)).toEqual(["1", "2"]);
  expect(values({ form: "b" }, form)).toEqual([]);
  expect(values({ form: "a" }, { body: "a=1" })).toEqual([]);
  expect(values({ body: "a.b" }, { body: '{"a":{"b":"c"}}' })).toEqual(["c"]);
  expect(values({ body: "a.b" }, { body: '{"a":{"b":""}}' })).toEqual([]);
  for (const other of ["null", "true", "{}", "[]"])
    expect(values({ body: "a" }, { body: `{"a":${other}}` })).toEqual([]);
  expect(values({ body: "constructor" }, { body: "{}" })).toEqual([]);
  expect(values({ body: "__proto__.x" }, { body: '{"__proto__":{"x":"y"}}' })).toEqual(["y"]);
});

it("takes numbers as they are written", () => {
  for (const number of ["1", "9007199254740993", "18446744073709551616", "1e400", "0.1000000000000000055"]) {
    expect(values({ body: "a.0" }, { body: `{"a":[${number}],"__proto__":${number}}` })).toEqual([number]);
  }
});

it("finds every value of a body that holds several notifications, each once", () => {
  const body = '[{"portalId":7},{"portalId":8},{"other":1},{"portalId":7},3,null]';
  expect(values({ body: "*.portalId" }, { body })).toEqual(["7", "8"]);
  expect(values({ body: "value.*.id" }, { body: '{"value":{"*":{"id":"star"}}}' })).toEqual(["star"]);
});

it("decodes values: base64, JSON, or both", () => {
  const data = Buffer.from('{"emailAddress":"ada@example.com","historyId":9007199254740993}').toString("base64");
  const body = JSON.stringify({ message: { data } });
  expect(values({ body: "message.data", base64: true, json: "emailAddress" }, { body })).toEqual(["ada@example.com"]);
  expect(values({ body: "message.data", base64: true, json: "historyId" }, { body })).toEqual(["9007199254740993"]);
  expect(values({ body: "message.data", json: "emailAddress" }, { body })).toEqual([]);
  const broken = JSON.stringify({ message: { data: "!!!" } });
  expect(values({ body: "message.data", base64: true, json: "emailAddress" }, { body: broken })).toEqual([]);
});

it("finds nothing that cannot be indexed, or is too long", () => {
  expect(values({ body: "a" }, { body: '{"a":"x\\u0000y"}' })).toEqual([]);
  expect(values({ body: "a" }, { body: '{"a":"\\ud800"}' })).toEqual([]);
  expect(values({ body: "a" }, { body: JSON.stringify({ a: "x".repeat(16_385) }) })).toEqual([]);
  expect(values({ body: "*" }, { body: JSON.stringify(Array.from({ length: 5_000 }, (_, i) => i)) })).toHaveLength(
    1_000,
  );
});

it("treats extremely nested JSON as text, at once", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const elapsed = startStopwatch();
  const deep = reading({ body: nested(2_500_000) });
  expect(deep.json()).toBeUndefined();
  expect(payloadFormOf(undefined, deep)).toBe(StoredNotification_PayloadForm.TEXT);
  expect(elapsed.ms).toBeLessThan(300);
  expect(values({ body: "a" }, { body: `{"a":9007199254740993,"deep":${nested(499)}}` })).toEqual(["9007199254740993"]);
  expect(values({ body: "a" }, { body: `{"a":1,"deep":${nested(500)}}` })).toEqual([]);
  expect(values({ body: "a" }, { body: `{"a":1,"text":"${"[".repeat(600)}\\"${"{".repeat(600)}"}` })).toEqual(["1"]);
});

it("W18 reads a header's bytes as UTF-8 where they are, and as Latin-1 otherwise", () => {
  const at = (value: string) => values({ header: "x-a" }, { headers: { "x-a": value } });
  expect(at(Buffer.from("Zoë").toString("latin1"))).toEqual(["Zoë"]);
  expect(at("Zo\xeb")).toEqual(["Zoë"]);
  expect(at("\x80\xff")).toEqual(["\x80\xff"]);
});

describe("the neutral calendar", () => {
  const rules = knownRules("calendar");
  const told = (number: string | undefined, more: Readonly<Record<string, string>> = {}) =>
    notificationValues(
      rules,
      reading({
        headers: {
          "x-cal-channel-id": "c1",
          ...(number === undefined ? {} : { "x-cal-message-number": number }),
          "x-cal-resource-uri": primary,
          ...more,
        },
      }),
    );

  it("W09 passes numbers on as received", () => {
    for (const number of ["1", "10", "7", "18446744073709551616", "abc"]) {
      expect(told(number)).toMatchObject({ messageId: `c1\0${number}`, channel: "c1", number });
    }
    expect(told(undefined)).toMatchObject({ messageId: undefined, channel: "c1", number: undefined });
  });

  it("W09 knows the announcement of a channel from a change", () => {
    expect(told("1", { "x-cal-resource-state": "sync" }).isSync).toBe(true);
    expect(told("1", { "x-cal-resource-state": "exists" }).isSync).toBe(false);
    expect(told("1", { "x-cal-resource-state": "Sync" }).isSync).toBe(false);
    expect(told("1").isSync).toBe(false);
  });

  it("looks in the order of the rules", () => {
    expect(shown(told("1").lookups)).toEqual([
      { rule: 0, field: "metadata.calendarWatchResourceUris", values: [primary] },
      { rule: 1, field: "connection_config.emailAddressHash", values: [emailHash("ada@example.com")] },
      { rule: 2, field: "metadata.emailAddress", values: ["ada@example.com"] },
      { rule: 3, field: "metadata.email", values: ["ada@example.com"] },
    ]);
  });

  it("looks for the whole URI alone where its segment does not decode", () => {
    const uri = "https://api.example/calendars/%zz/events";
    expect(shown(told("1", { "x-cal-resource-uri": uri }).lookups).filter(({ values }) => values.length > 0)).toEqual([
      { rule: 0, field: "metadata.calendarWatchResourceUris", values: [uri] },
    ]);
  });
});

it("gives no two messages one id, even of several values", () => {
  const rules = rulesOf({ messageId: ["a", "b"], values: { a: { body: "a.*" }, b: { body: "b.*" } } });
  const id = (a: readonly string[], b: readonly string[]) =>
    notificationValues(rules, reading({ body: JSON.stringify({ a, b }) })).messageId;
  expect(id(["1", "2"], ["3"])).not.toBe(id(["1"], ["2", "3"]));
  expect(id(["1"], [])).toBeUndefined();
});

it("looks up every value of a rule, folded as the rule defines", () => {
  const rules = rulesOf({
    values: { shop: { body: "*" } },
    lookups: [{ field: "metadata.shop", value: "shop", transform: LookupRule_Transform.LOWER_CASE }],
  });
  expect(shown(notificationValues(rules, reading({ body: '["A","b"]' })).lookups)).toEqual([
    { rule: 0, field: "metadata.shop", values: ["a", "b"] },
  ]);
});

const pubSub = {
  message: { data: Buffer.from('{"emailAddress":"ada@example.com","historyId":1}').toString("base64"), messageId: "7" },
  subscription: "projects/p/subscriptions/s",
};
const form = { "content-type": "application/x-www-form-urlencoded" };

it.each([
  [
    "google-drive",
    { headers: { "x-goog-channel-id": "c", "x-goog-resource-id": "r" } },
    [
      "metadata.driveChannelId=c",
      "metadata.driveResourceId=r",
      "metadata.googleDriveWatchResourceIds=r",
      "metadata.googleDriveWatchResourceId=r",
      "connection_config.googleDriveWatchResourceId=r",
    ],
    undefined,
  ],
  [
    "google-mail",
    { body: JSON.stringify(pubSub) },
    [
      `connection_config.emailAddressHash=${emailHash("ada@example.com")}`,
      "metadata.emailAddress=ada@example.com",
      "metadata.email=ada@example.com",
    ],
    "projects/p/subscriptions/s\x007",
  ],
  ["slack", { body: '{"team_id":"T1","event_id":"Ev1"}' }, ["metadata.teamId=T1"], "Ev1"],
  ["slack", { headers: form, body: "team_id=T1&command=%2Fx" }, ["metadata.teamId=T1"], undefined],
  [
    "slack",
    { headers: form, body: `payload=${encodeURIComponent('{"team":{"id":"T1"}}')}` },
    ["metadata.teamId=T1"],
    undefined,
  ],
  [
    "github",
    {
      headers: { "x-github-delivery": "d" },
      body: '{"installation":{"id":12},"repository":{"owner":{"login":"ada"}}}',
    },
    ["connection_config.installation_id=12", "metadata.login=ada"],
    "d",
  ],
  [
    "microsoft",
    { body: '{"value":[{"subscriptionId":"a"},{"subscriptionId":"b"}]}' },
    [
      "metadata.subscriptionId=a",
      "metadata.subscriptionId=b",
      "metadata.subscriptionIds=a",
      "metadata.subscriptionIds=b",
    ],
    undefined,
  ],
  ["stripe", { body: '{"id":"evt_1","account":"acct_1"}' }, ["metadata.accountId=acct_1"], "evt_1"],
  ["stripe", { body: '{"id":"evt_1"}' }, [], "evt_1"],
  [
    "shopify",
    { headers: { "x-shopify-shop-domain": "Acme.myshopify.com", "x-shopify-webhook-id": "w" }, body: "{}" },
    ["metadata.shopDomain=acme.myshopify.com"],
    "w",
  ],
  ["hubspot", { body: '[{"portalId":7},{"portalId":8}]' }, ["metadata.portalId=7", "metadata.portalId=8"], undefined],
  [
    "twilio",
    { headers: { ...form, "i-twilio-idempotency-token": "t" }, body: "AccountSid=AC1" },
    ["connection_config.accountSid=AC1"],
    "t",
  ],
  [
    "asana",
    { body: '{"events":[{"resource":{"gid":"1"},"parent":{"gid":"2"}},{"resource":{"gid":"3"},"parent":null}]}' },
    ["metadata.resourceIds=2", "metadata.resourceIds=1", "metadata.resourceIds=3"],
    undefined,
  ],
  [
    "airtable",
    { body: '{"base":{"id":"app1"},"webhook":{"id":"ach1"}}' },
    ["metadata.webhookIds=ach1", "metadata.baseId=app1"],
    undefined,
  ],
  [
    "jira",
    { headers: { "x-atlassian-webhook-identifier": "i" }, body: '{"matchedWebhookIds":[1,2]}' },
    ["metadata.webhookIds=1", "metadata.webhookIds=2"],
    "i",
  ],
  [
    "linear",
    { headers: { "linear-delivery": "d" }, body: '{"organizationId":"o"}' },
    ["metadata.organizationId=o"],
    "d",
  ],
  ["notion", { body: '{"id":"e","workspace_id":"w"}' }, ["metadata.workspaceId=w"], "e"],
  ["gitlab", { headers: { "idempotency-key": "k" }, body: '{"project":{"id":3}}' }, ["metadata.projectIds=3"], "k"],
])("knows whose a notification of %s is", (name, sent, lookups, messageId) => {
  const told = notificationValues(knownRules(name), reading(sent));
  expect(told.lookups.flatMap(({ field, values }) => values.map((value) => `${field}=${value}`))).toEqual(lookups);
  expect(told.messageId).toBe(messageId);
});

it("throws at no input, and makes JSON of all of it", () => {
  const all = [...loadCatalogue().values()].flatMap(({ notification }) => notification ?? []);
  const types = ["application/json", "application/x-www-form-urlencoded", "text/plain", ""];
  const shapes = ['{"a":', "[", '"', "%", "\ufeff{}", '{"message":{"data":"', "value", "a=b&"].map((one) =>
    Buffer.from(one),
  );
  for (let seed = 0; seed < 2_000; seed++) {
    const bytes = randomBytes(seed, seed % 97);
    const body = Buffer.concat([shapes[seed % shapes.length] ?? Buffer.alloc(0), bytes]);
    const latin1 = Buffer.from(bytes).toString("latin1");
    const read = readingOf({
      headers: ["content-type", "x-cal-resource-uri", "x-goog-channel-id"].map((name, i) => [
        name,
        i === 0 ? (types[seed % types.length] ?? "") : latin1,
      ]),
      query: latin1,
      body,
    });
    for (const rules of all) {
      notificationValues(rules, read);
      replyTo(rules.challenge, read);
    }
    const payload = payloadOf(payloadFormOf(undefined, read), [{ name: "x", value: "y" }], body);
    expect(() => JSON.parse(payload)).not.toThrow();
  }
});

it.each([
  ["github", { headers: { "x-github-event": "push" }, body: "{}" }, ["push"]],
  ["gitlab", { headers: { "x-gitlab-event": "Push Hook" }, body: "{}" }, ["Push Hook"]],
  ["shopify", { headers: { "x-shopify-topic": "orders/create" }, body: "{}" }, ["orders/create"]],
  ["stripe", { body: '{"id":"evt_1","type":"invoice.paid"}' }, ["invoice.paid"]],
  ["slack", { body: '{"type":"event_callback","event":{"type":"reaction_added"}}' }, ["reaction_added"]],
  ["linear", { body: '{"action":"create","type":"Issue"}' }, ["Issue"]],
  [
    "hubspot",
    { body: '[{"subscriptionType":"contact.creation"},{"subscriptionType":"deal.deletion"}]' },
    ["contact.creation", "deal.deletion"],
  ],
  ["notion", { body: '{"type":"page.created"}' }, ["page.created"]],
  ["jira", { body: '{"webhookEvent":"jira:issue_updated"}' }, ["jira:issue_updated"]],
  ["slack", { body: "payload=1", headers: { "content-type": "application/x-www-form-urlencoded" } }, []],
  ["calendar", { headers: { "x-cal-resource-state": "exists" } }, []],
])("knows the kind of a notification of %s", (name, sent, kinds) => {
  const rules = loadCatalogue().get(name)?.notification;
  expect(notificationValues(rules, reading(sent)).kinds).toEqual(kinds);
});
