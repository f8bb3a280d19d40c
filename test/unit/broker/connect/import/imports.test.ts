import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ConnectionImportSchema, ConnectionRefSchema } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import { sidecarOfFile } from "../../../../support/sidecar/door.ts";

const running = sidecarOfFile();

interface Item {
  readonly id: string;
  readonly environment?: string;
  readonly integration?: string;
  readonly metadata?: { readonly of: string };
  readonly tags?: { readonly tags: Record<string, string> };
  readonly endUser?: { readonly id: string; readonly organization?: { readonly id: string } };
}

const item = (more: Item) =>
  create(ConnectionImportSchema, {
    environment: "dev",
    integration: "keyed",
    credentials: { kind: { case: "apiKey", value: { apiKey: "k" } } },
    ...more,
  });
const importAll = (...items: readonly Item[]) =>
  running().sidecar.broker.imports.importAll(
    items.map((one) => ({ item: item(one), runHooks: false })),
    "test",
  );

it("refuses an item with an unusable name, and imports the others", async () => {
  const results = await importAll(
    { id: "before" },
    { id: "nul\0" },
    { id: "x", integration: "key\0ed" },
    { id: "x", environment: "d\0ev" },
    { id: "after" },
  );
  expect(results.map(({ fault }) => fault?.code)).toEqual([
    undefined,
    "invalid_body",
    "unknown_provider_config",
    "unknown_provider_config",
    undefined,
  ]);
});

it("merges the second of two items into the first one's connection", async () => {
  const results = await importAll(
    { id: "twice", metadata: { of: "the first" }, tags: { tags: { A: "1" } }, endUser: { id: "u-1" } },
    { id: "twice", endUser: { id: "u-2" } },
  );
  expect(results.map((one) => one.fault === undefined && one.created)).toEqual([true, false]);
  const ref = create(ConnectionRefSchema, { environment: "dev", integration: "keyed", id: "twice" });
  const { value } = await running().sidecar.broker.connections.get(ref);
  expect(value).toMatchObject({ metadata: { of: "the first" }, tags: { a: "1", end_user_id: "u-2" } });
});

it("checks an item against the result of earlier items of the batch", async () => {
  const nine = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`t${i}`, "x"]));
  const organization = { id: "o" };
  const results = await importAll(
    { id: "crowded", tags: { tags: nine } },
    { id: "crowded", endUser: { id: "u", organization } },
    { id: "crowded", endUser: { id: "u" } },
  );
  expect(results.map(({ fault }) => fault?.code)).toEqual([undefined, "invalid_body", undefined]);
});
