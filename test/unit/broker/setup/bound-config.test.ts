import { create, type DescMessage } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { boundConfigNames, changedConfigNames } from "../../../../src/broker/setup/bound-config.ts";
import { ProviderSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

/** A message with this text in one of its fields, for each field of text at any depth; with the path of that field. */
function withTextIn(schema: DescMessage, text: string, depth = 0): [path: string, value: Record<string, unknown>][] {
  if (depth > 6) return [];
  return schema.fields.flatMap((field): [string, Record<string, unknown>][] => {
    const { localName: name, oneof, message, fieldKind } = field;
    const put = (path: string, value: unknown): [string, Record<string, unknown>] => [
      path,
      oneof === undefined ? { [name]: value } : { [oneof.localName]: { case: name, value } },
    ];
    if (fieldKind === "scalar") return field.scalar === 9 ? [put(name, text)] : [];
    if (fieldKind === "list") {
      if (field.listKind === "scalar") return field.scalar === 9 ? [put(name, [text])] : [];
      if (field.listKind !== "message" || message === undefined) return [];
      return withTextIn(message, text, depth + 1).map(([path, inner]) => put(`${name}.${path}`, [inner]));
    }
    if (fieldKind === "map") {
      if (field.mapKind === "scalar") return field.scalar === 9 ? [put(name, { k: text })] : [];
      if (field.mapKind !== "message" || message === undefined) return [];
      return withTextIn(message, text, depth + 1).map(([path, inner]) => put(`${name}.${path}`, { k: inner }));
    }
    if (fieldKind !== "message" || message === undefined) return [];
    if (message.typeName === "google.protobuf.Struct") return [put(name, { deep: { list: [text] } })];
    return withTextIn(message, text, depth + 1).map(([path, inner]) => put(`${name}.${path}`, inner));
  });
}

it("finds a name wherever a description may hold text", () => {
  const all = withTextIn(ProviderSchema, "a${connectionConfig.host}b${credentials.other}");
  expect(all.length).toBeGreaterThan(150);
  for (const [path, provider] of all) {
    expect([path, [...boundConfigNames(create(ProviderSchema, provider))]]).toEqual([path, ["host"]]);
  }
});

it("compares own values, and knows absent from empty", () => {
  const bound = new Set(["host", "constructor", "deep"]);
  expect(changedConfigNames(bound, { host: "a", note: "x" }, { host: "a", note: "y" })).toEqual([]);
  expect(changedConfigNames(bound, { host: "a" }, { host: "b" })).toEqual(["host"]);
  expect(changedConfigNames(bound, { host: "a" }, {})).toEqual(["host"]);
  expect(changedConfigNames(bound, {}, { host: "" })).toEqual(["host"]);
  expect(changedConfigNames(bound, {}, { constructor: "x" })).toEqual(["constructor"]);
  expect(changedConfigNames(bound, { deep: { a: [1] } }, { deep: { a: [1] } })).toEqual([]);
  expect(changedConfigNames(bound, { deep: { a: [1] } }, { deep: { a: [2] } })).toEqual(["deep"]);
});
