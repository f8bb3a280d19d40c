import { expect, it } from "vitest";
import { attachFixed, refusalOf, type Setting } from "./fixtures.ts";

const settingOf = (username: string, password: string): Setting => ({
  auth: { case: "basic", value: {} },
  kind: { case: "basic", value: { username, password } },
});

it.each([
  ["the example of RFC 7617, section 2", "Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="],
  ["the UTF-8 example of section 2.1", "test", "123£", "Basic dGVzdDoxMjPCow=="],
  ["a user name alone", "key", "", "Basic a2V5Og=="],
  ["a password alone", "", "key", "Basic OmtleQ=="],
  ["a password with colons", "a", "b:c", "Basic YTpiOmM="],
])("sends %s", (_, username, password, value) => {
  expect(attachFixed(settingOf(username, password)).headers).toEqual([["authorization", value]]);
});

it.each([
  ["the user name and the password are missing", "", ""],
  ["the user name must not contain a colon (HTTP Basic)", "s3cr3t:canary", "x"],
  [
    "the user name and the password must not contain control characters, such as a trailing line break",
    "ada",
    "s3cr3t-canary\n",
  ],
])("reports that %s", (message, username, password) => {
  expect(refusalOf(settingOf(username, password))).toBe(message);
});
