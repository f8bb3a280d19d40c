import { expect, it } from "vitest";
import { StoreUnavailable } from "../../../../src/store/contract.ts";
import { createPrimary } from "../../../../src/store/postgres/servers/primary.ts";

const servers = ["one", "two", "three"].map((host) => ({ host, port: 5432 }));

/** Servers whose states a test changes: a missing one does not answer. */
function openPrimary(states: Map<string, "primary" | "standby">) {
  const asked: string[] = [];
  const primary = createPrimary({
    servers,
    async acceptsWrites({ host }) {
      asked.push(host);
      const state = states.get(host);
      if (state === undefined) throw new Error("connect ECONNREFUSED");
      return state === "primary";
    },
  });
  return { primary, asked };
}

it("finds the server that accepts writes, and stays with it until it is left", async () => {
  const states = new Map<string, "primary" | "standby">([
    ["one", "standby"],
    ["two", "primary"],
  ]);
  const { primary, asked } = openPrimary(states);
  const found = await Promise.all([primary.find(), primary.find()]);
  expect(found.map(({ host }) => host)).toEqual(["two", "two"]);
  expect(asked).toEqual(["one", "two", "three"]);
  expect((await primary.find()).host).toBe("two");

  states.delete("two");
  states.set("one", "primary");
  // A failure of another server says nothing about this one.
  primary.leave(servers[2]);
  expect((await primary.find()).host).toBe("two");
  primary.leave(servers[1]);
  expect((await primary.find()).host).toBe("one");
  expect(asked).toHaveLength(6);
});

it("says of each server why it is not the primary, and asks again later", async () => {
  const states = new Map<string, "primary" | "standby">([["one", "standby"]]);
  const { primary } = openPrimary(states);
  const finding = primary.find();
  await expect(finding).rejects.toBeInstanceOf(StoreUnavailable);
  await expect(finding).rejects.toThrow(/one:5432: it is a standby or read-only; two:5432: connect ECONNREFUSED/);
  states.set("three", "primary");
  expect((await primary.find()).host).toBe("three");
});
