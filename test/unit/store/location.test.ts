import { expect, it } from "vitest";
import { describeStoreLocation, parseStoreLocation } from "../../../src/store/location.ts";

const described = (text: string) => {
  const location = parseStoreLocation(text);
  return location && describeStoreLocation(location);
};

it.each([
  ["level:./.latchkey", "level:./.latchkey"],
  ["postgres://ada:hunter2@db:5433/latchkey", "postgres://ada@db:5433/latchkey"],
  ["postgresql:///x?host=/run/pg&user=ada&password=hunter2", "postgresql:///x?host=%2Frun%2Fpg"],
  ["postgres://ada:hunter2@one:1,two,[::1]:3/x?schema=two", "postgres://ada@one:1,two,[::1]:3/x?schema=two"],
  ["postgres://ada@db/x?sslmode=require&schema=two", "postgres://ada@db/x?schema=two"],
])("names %s without a password, and so that no other is meant", (text, name) => {
  expect(described(text)).toBe(name);
});

it.each(["", "level:", "mysql://db/x", "postgres", "/var/lib/latchkey", "postgres://[::1"])(
  "takes %j for no location",
  (text) => {
    expect(parseStoreLocation(text)).toBeUndefined();
  },
);
