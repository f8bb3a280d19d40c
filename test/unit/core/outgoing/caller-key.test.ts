import { expect, it } from "vitest";
import { callerKey } from "../../../../src/core/outgoing/caller-key.ts";

const found = (fields: Readonly<Record<string, string>>) => callerKey((name) => fields[name]);
const basic = (pair: string) => `Basic ${Buffer.from(pair).toString("base64")}`;

it.each([
  ["a bearer token", { authorization: "Bearer lk_a" }],
  ["GitHub's own scheme", { authorization: "token lk_a" }],
  ["a user without a password", { authorization: basic("lk_a:") }],
  ["a user with a password of the SDK's", { authorization: basic("lk_a:x") }],
  ["a password of nobody", { authorization: basic(":lk_a") }],
  ["a password of the SDK's user", { authorization: basic("api:lk_a") }],
  ["a field of its own", { "latchkey-key": "lk_a", "proxy-authorization": "Bearer b", authorization: "Bearer c" }],
  ["the proxy's field", { "latchkey-key": "", "proxy-authorization": "Bearer lk_a", authorization: "Bearer c" }],
])("finds the key in %s", (_name, fields) => {
  expect(found(fields)).toBe("lk_a");
});

it("takes a pinned key, which may begin as it likes, for the user", () => {
  expect(found({ authorization: basic("pinned:x") })).toBe("pinned");
});

it("stops at a malformed one", () => {
  expect(() => found({ "proxy-authorization": "Digest x", authorization: "Bearer lk_a" })).toThrow(
    /proxy-authorization/,
  );
  expect(() => found({ "latchkey-key": "a b" })).toThrow(/latchkey-key/);
  expect(() => found({ authorization: basic("a\r\nb:") })).toThrow(/authorization/);
  expect(found({})).toBeUndefined();
});
