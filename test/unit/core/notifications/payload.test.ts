import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { passedHeaders, payloadFormOf, payloadOf } from "../../../../src/core/notifications/payload.ts";
import { readingOf } from "../../../../src/core/notifications/reading.ts";
import { StoredNotification_PayloadForm as PayloadForm } from "../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { NotificationRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { startStopwatch } from "../../../support/runner/stopwatch.ts";
import { knownRules, receivedOf } from "../../../support/wire/notifications.ts";

const form = { "content-type": "Application/X-WWW-Form-Urlencoded; charset=UTF-8" };

function payload(sent: Parameters<typeof receivedOf>[0]) {
  const received = receivedOf(sent);
  const kind = payloadFormOf(undefined, readingOf(received));
  return { kind, text: payloadOf(kind, passedHeaders(knownRules("calendar"), readingOf(received)), received.body) };
}

it("passes the provider's own headers on, less the token, several lines of one joined", () => {
  const headers: [string, string][] = [
    ["x-cal-channel-id", "c"],
    ["x-cal-channel-token", "s3cret"],
    ["x-other", "o"],
    ["x-cal-resource-state", "a"],
    ["x-cal-resource-state", "b"],
  ];
  expect(passedHeaders(knownRules("calendar"), readingOf({ headers, query: "", body: Buffer.alloc(0) }))).toEqual([
    { name: "x-cal-channel-id", value: "c" },
    { name: "x-cal-resource-state", value: "a, b" },
  ]);
  const reading = readingOf(receivedOf({ headers: { a: "b" } }));
  expect(passedHeaders(undefined, reading)).toEqual([]);
  expect(passedHeaders(create(NotificationRulesSchema), reading)).toEqual([]);
});

it("is an object of the headers for a notification without a body", () => {
  expect(payload({ headers: { "x-cal-message-number": "10" } })).toEqual({
    kind: PayloadForm.UNSPECIFIED,
    text: '{"x-cal-message-number":"10"}',
  });
});

it("consists of the headers if they name the channel, whatever the body", () => {
  const beside = readingOf(receivedOf({ headers: { "x-goog-channel-id": "c" }, body: '{"kind":"drive#changes"}' }));
  expect(payloadFormOf(knownRules("google-drive"), beside)).toBe(PayloadForm.UNSPECIFIED);
  expect(payloadFormOf(knownRules("calendar"), beside)).toBe(PayloadForm.UNSPECIFIED);
  expect(payloadFormOf(knownRules("github"), beside)).toBe(PayloadForm.JSON);
});

it("passes a JSON body on byte for byte", () => {
  for (const body of [
    '{ "b": 9007199254740993,\n"a":1.0, "a":2, "__proto__": {"x":1} }',
    '[{"é":"\\u00e9"}]',
    "\n{}",
  ]) {
    expect(payload({ body })).toEqual({ kind: PayloadForm.JSON, text: body });
  }
});

it("is a text for invalid JSON, or JSON other than an object or list", () => {
  const bodies = ["\ufeff{}", "{", '"x"', "1", "null", "<xml/>", "{}x", "{'a':1}"];
  for (const body of bodies) expect(payload({ body })).toEqual({ kind: PayloadForm.TEXT, text: JSON.stringify(body) });
  const { kind, text } = payload({ body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d) });
  expect({ kind, text }).toEqual({ kind: PayloadForm.TEXT, text: '"{\\"ÿ\\":1}"' });
});

it("is an object for a form, with lists of repeated fields", () => {
  const { kind, text } = payload({ headers: form, body: "a=1&b=%7B%7D&a=2&__proto__=x&c" });
  expect(kind).toBe(PayloadForm.FORM);
  expect(text).toBe('{"a":["1","2"],"b":"{}","__proto__":"x","c":""}');
  // The name has no special meaning here, although it has one in Node.
  expect(({} as { x?: unknown }).x).toBeUndefined();
});

it("W18 is valid JSON for header values with any bytes, and the same bytes each time", () => {
  const all = Array.from({ length: 128 }, (_, i) => String.fromCharCode(0x80 + i)).join("");
  const once = payload({ headers: { "x-cal-resource-uri": all } }).text;
  expect(JSON.parse(once)).toEqual({ "x-cal-resource-uri": all });
  expect(payload({ headers: { "x-cal-resource-uri": all } }).text).toBe(once);
});

it("is an object for a form of 300,000 fields, in time", () => {
  const body = Array.from({ length: 300_000 }, (_, i) => `f${i % 1_000}=${i}`).join("&");
  const elapsed = startStopwatch();
  payload({ headers: form, body });
  expect(elapsed.ms).toBeLessThan(2_000);
});
