import { expect, it } from "vitest";
import { outgoingFields } from "../../../../src/core/outgoing/outgoing-fields.ts";

const none: ReadonlySet<string> = new Set();
const sent = (rawHeaders: readonly string[], replaced = none) =>
  outgoingFields(rawHeaders, { replaced, key: undefined }).pairs;

it("keeps end-to-end fields as written", () => {
  const fields = ["ACCEPT", "*/*", "x-a", "", "X-A", "2", "X-Forwarded", "x", "Proxy-Status", "x"];
  expect(sent(fields)).toEqual(fields);
});

it("drops nominated fields, named anywhere, but none that frame the request", () => {
  const fields = [
    "X-A",
    "1",
    "x-b",
    "2",
    "Connection",
    "close, X-A",
    "connection",
    " x-B ,content-length",
    "Content-Length",
    "5",
  ];
  expect(outgoingFields(fields, { replaced: none, key: undefined })).toEqual({ pairs: [], contentLength: "5" });
});

it("leaves out a field in disguise that is nominated by either of its names", () => {
  expect(sent(["Connection", "x-a", "Nango-Proxy-X-A", "1"])).toEqual([]);
  expect(sent(["Connection", "nango-proxy-x-a", "Nango-Proxy-X-A", "1"])).toEqual([]);
});

it("puts the last of several in disguise in the place of all plain twins", () => {
  const fields = ["X-A", "1", "nango-proxy-x-a", "2", "x-a", "3", "Nango-Proxy-X-A", "4"];
  expect(sent(fields)).toEqual(["X-A", "4"]);
});

it("replaces fields that the credentials set, in any spelling", () => {
  const replaced = new Set(["x-api-key", "api_token"]);
  const fields = [
    "X-API-Key",
    "1",
    "X_Api_Key",
    "2",
    "Nango-Proxy-X-Api-Key",
    "3",
    "Api_Token",
    "4",
    "X-Api-Keys",
    "5",
  ];
  expect(sent(fields, replaced)).toEqual(["X-Api-Keys", "5"]);
});
