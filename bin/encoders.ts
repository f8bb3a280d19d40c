/**
 * Generates an encoder for each message that is stored with every notification, connection, record and use, and for the
 * answers of imports. Its bytes
 * equal those of `toBinary`, which is slower because it reads the message's descriptor for each field.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence as Presence } from "@bufbuild/protobuf/wkt";
import { file_latchkey_stored_v1_stored as file } from "../src/gen/latchkey/stored/v1/stored_pb.ts";
import { ConnectionSchema, StreamImportConnectionsResponseSchema } from "../src/gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../src/gen/latchkey/v1/credentials_pb.ts";
import { AuditEventSchema } from "../src/gen/latchkey/v1/log_pb.ts";
import { root } from "./steps.ts";

const names = [
  "ChannelHeard",
  "NotificationSeen",
  "RecordPlace",
  "StoredForward",
  "StoredNotification",
  "StoredRecord",
  "Touch",
  "WaitingForward",
];
const stored = [
  ...file.messages.filter(({ name }) => names.includes(name)),
  ...[ConnectionSchema, CredentialsSchema, AuditEventSchema, StreamImportConnectionsResponseSchema],
];
if (stored.length < names.length + 4) throw new Error("stored.proto lacks a message of the list above");
const home = "src/gen/latchkey/stored/v1";

/** By scalar type: the writer's method, the wire type, and the test for a value that is not the default. */
const scalars: Partial<
  Record<ScalarType, readonly [method: string, wireType: number, isPresent: (of: string) => string]>
> = {
  [ScalarType.STRING]: ["text", 2, (of) => `${of} !== ""`],
  [ScalarType.BYTES]: ["bytes", 2, (of) => `${of}.byteLength > 0`],
  [ScalarType.BOOL]: ["flag", 0, (of) => of],
  [ScalarType.UINT32]: ["unsigned", 0, (of) => `${of} !== 0`],
  [ScalarType.INT32]: ["signed", 0, (of) => `${of} !== 0`],
  [ScalarType.UINT64]: ["unsignedLong", 0, (of) => `${of} !== 0n`],
  [ScalarType.INT64]: ["signedLong", 0, (of) => `${of} !== 0n`],
  [ScalarType.DOUBLE]: ["double", 1, (of) => `!Object.is(${of}, 0)`],
};

const tagOf = ({ number }: DescField, wireType: number): number => number * 8 + wireType;

/** The library provides `google.protobuf`; generated files provide all others. */
const sourceOf = ({ file }: DescMessage): string =>
  file.name.startsWith("google/protobuf/")
    ? "@bufbuild/protobuf/wkt"
    : `../../../${file.name}_pb.ts`.replace("../../../latchkey/stored/v1/", "./");

const nameOf = ({ typeName, file }: DescMessage): string =>
  typeName.slice(file.proto.package.length + 1).replaceAll(".", "_");

/** Returns the messages and, recursively, the messages of their fields. */
function needed(from: readonly DescMessage[], found = new Set<DescMessage>()): Set<DescMessage> {
  for (const desc of from) {
    if (found.has(desc) || desc.typeName === struct) continue;
    found.add(desc);
    needed(
      desc.fields.flatMap(({ message }) => message ?? []),
      found,
    );
  }
  return found;
}

/** Generated types have JSON in its place. Its writer is written by hand, below. */
const struct = "google.protobuf.Struct";

function linesFor(field: DescField): string[] {
  const of = `m.${field.localName}`;
  if (field.oneof !== undefined) {
    if (field.fieldKind !== "message") throw new Error(`${field}: only messages are supported in a oneof`);
    const oneof = `m.${field.oneof.localName}`;
    return [`if (${oneof}.case === "${field.localName}") {`, ...within(field, `${oneof}.value`), "}"];
  }
  if (field.fieldKind === "map") {
    if (field.mapKey === ScalarType.STRING && field.mapKind === "message") {
      return [
        `for (const [key, value] of Object.entries(${of})) {`,
        `  const from = w.begin(${tagOf(field, 2)});`,
        "  w.text(10, key);",
        "  const at = w.begin(18);",
        `  write${nameOf(field.message)}(w, value);`,
        "  w.end(at);",
        "  w.end(from);",
        "}",
      ];
    }
    if (field.mapKey !== ScalarType.STRING || field.mapKind !== "scalar" || field.scalar !== ScalarType.STRING)
      throw new Error(`${field}: only maps of text and messages are supported`);
    return [`for (const [key, value] of Object.entries(${of})) writeEntry(w, ${tagOf(field, 2)}, key, value);`];
  }
  if (field.fieldKind === "message") return [`if (${of} !== undefined) {`, ...within(field, of), "}"];
  if (field.fieldKind === "list" && field.listKind === "message") {
    return [`for (const one of ${of}) {`, ...within(field, "one"), "}"];
  }
  if (field.fieldKind === "list" && field.listKind === "scalar" && field.scalar === ScalarType.STRING)
    return [`for (const one of ${of}) w.text(${tagOf(field, 2)}, one);`];
  if (field.presence !== Presence.IMPLICIT)
    throw new Error(`${field}: fields with explicit presence are not supported`);
  if (field.fieldKind === "enum")
    return [`if (${of} !== ${field.enum.values[0]?.number}) w.signed(${tagOf(field, 0)}, ${of});`];
  const [method, wireType, isPresent] = (field.fieldKind === "scalar" && scalars[field.scalar]) || [];
  if (method === undefined || wireType === undefined || isPresent === undefined)
    throw new Error(`${field}: this kind of field is not supported`);
  return [`if (${isPresent(of)}) w.${method}(${tagOf(field, wireType)}, ${of});`];
}

function within(field: DescField, value: string): string[] {
  if (field.message === undefined) throw new Error(`${field} is not a message field`);
  return [
    `  const from = w.begin(${tagOf(field, 2)});`,
    `  write${nameOf(field.message)}(w, ${value});`,
    "  w.end(from);",
  ];
}

function functionFor(desc: DescMessage): string {
  const name = nameOf(desc);
  const fields = desc.fields.toSorted((a, b) => a.number - b.number).flatMap(linesFor);
  const lines = [...fields, "if (m.$unknown !== undefined) w.unknown(m.$unknown);"];
  return `function write${name}(w: MessageWriter, m: ${name}): void {\n${lines.map((line) => `  ${line}\n`).join("")}}\n`;
}

const all = [...needed(stored)];
const bySource = Map.groupBy(all, sourceOf);
const json = `import type { JsonObject, JsonValue } from "@bufbuild/protobuf";\n`;
const imports = [...bySource]
  .toSorted(([a], [b]) => (a < b ? -1 : 1))
  .map(([source, descs]) => `import type { ${descs.map(nameOf).toSorted().join(", ")} } from "${source}";\n`)
  .join("");
const table = stored.map((desc) => `  "${desc.typeName}": write${nameOf(desc)},\n`).join("");

/** Written by hand, and copied: the generated folder imports nothing of the others. */
const written = readFileSync(join(import.meta.dirname, "message-writer.ts"), "utf8")
  .replace(/^import [^;]*;\n/gm, "")
  .replace(/^\/\/.*\n/, "")
  .replace(/^export function/gm, "function")
  .trim();

const text = `// @generated by bin/encoders.ts

${json}${imports}
${written}
${all.map(functionFor).join("\n")}
/** Encoders by type name. */
export const messageWriters = {
${table}} as const;
`;

const [, , into = root] = process.argv;
const path = join(into, home, "stored_writers.ts");
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, text);
