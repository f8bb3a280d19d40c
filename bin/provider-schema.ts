/** Generates the JSON Schema of a provider description from provider.proto, with its comments as descriptions. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createFileRegistry,
  type DescEnum,
  type DescField,
  type DescMessage,
  fromBinary,
  getOption,
  hasOption,
  ScalarType,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { getComments } from "@bufbuild/protoplugin";
import { field as fieldRules } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { root } from "./steps.ts";

type Schema = Readonly<Record<string, unknown>>;

/** Fields that only the store and answers have. */
const outputOnly = ["custom", "declared", "created_at", "updated_at", "revision"];

/** Returns the schema of a provider, and the schemas that it refers to by `#/$defs/NAME`. */
export function providerSchema(): {
  readonly provider: Schema;
  readonly definitions: Readonly<Record<string, Schema>>;
} {
  const provider = messageNamed("latchkey.v1.Provider");
  const definitions = new Map<string, Schema>();
  collect(provider, definitions);
  const whole = definitions.get("Provider") ?? {};
  definitions.delete("Provider");
  return { provider: whole, definitions: Object.fromEntries([...definitions].sort(([a], [b]) => a.localeCompare(b))) };
}

function messageNamed(name: string): DescMessage {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-proto-"));
  const image = join(folder, "image.binpb");
  const buf = join(root, "node_modules", ".bin", "buf");
  const { status, stderr } = spawnSync(buf, ["build", "-o", image], { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  const message = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(image))).getMessage(name);
  rmSync(folder, { recursive: true });
  if (message === undefined) throw new Error(`there is no ${name}`);
  return message;
}

const nameOf = ({ typeName, file }: DescMessage): string => typeName.slice(file.proto.package.length + 1);

function collect(message: DescMessage, found: Map<string, Schema>): void {
  if (found.has(nameOf(message))) return;
  const fields = message.fields.filter(({ name }) => message.name !== "Provider" || !outputOnly.includes(name));
  found.set(nameOf(message), {});
  const properties = Object.fromEntries(
    fields.map((field) => [field.name, { description: descriptionOf(field), ...fieldSchema(field) }]),
  );
  const alternatives = message.oneofs.flatMap((oneof) => oneof.fields.map(({ name }) => ({ required: [name] })));
  found.set(nameOf(message), {
    type: "object",
    description: descriptionOf(message),
    properties,
    additionalProperties: false,
    ...(message.name === "Provider" && { required: ["name"] }),
    ...(alternatives.length > 0 && { oneOf: alternatives }),
  });
  for (const { message: inner } of fields) if (inner !== undefined && !isWellKnown(inner)) collect(inner, found);
}

const isWellKnown = ({ file }: DescMessage) => file.name.startsWith("google/");

/** Joins the lines of a comment. */
const descriptionOf = (desc: DescMessage | DescField | DescEnum["values"][number]): string =>
  (getComments(desc).leading ?? "").replace(/\s+/g, " ").trim();

function fieldSchema(field: DescField): Schema {
  if (field.fieldKind === "list") return { type: "array", items: itemSchema(field) };
  if (field.fieldKind === "map") return { type: "object", additionalProperties: itemSchema(field) };
  return { ...itemSchema(field), ...rulesOf(field) };
}

function itemSchema({ message, enum: choice, scalar }: DescField): Schema {
  if (message?.typeName === "google.protobuf.Duration")
    return { type: "string", pattern: "^-?\\d{1,12}(\\.\\d{1,9})?s$" };
  if (message !== undefined) return { $ref: `#/$defs/${nameOf(message)}` };
  if (choice !== undefined) {
    const values = choice.values.filter(({ name }) => !name.endsWith("_UNSPECIFIED"));
    return { enum: values.map(({ name }) => name), markdownEnumDescriptions: values.map(descriptionOf) };
  }
  if (scalar === ScalarType.STRING) return { type: "string" };
  if (scalar === ScalarType.BOOL) return { type: "boolean" };
  if (scalar === ScalarType.INT32) return { type: "integer" };
  throw new Error(`there is no JSON Schema for the scalar type ${scalar}`);
}

/** Returns the constraints that a field has in the proto file. */
function rulesOf(field: DescField): Schema {
  if (!hasOption(field, fieldRules)) return {};
  const { type } = getOption(field, fieldRules);
  if (type.case === "int32" && type.value.greaterThan.case === "gte") return { minimum: type.value.greaterThan.value };
  if (type.case !== "string") return {};
  const { pattern, maxLen, minLen, in: among } = type.value;
  return {
    ...(pattern !== "" && { pattern }),
    ...(maxLen > 0n && { maxLength: Number(maxLen) }),
    ...(minLen > 0n && { minLength: Number(minLen) }),
    ...(among.length > 0 && { enum: among.filter((one) => one !== "") }),
  };
}

/** Writes the schema of a provider file. */
export function writeProviderSchema(folder: string): ReturnType<typeof providerSchema> {
  const made = providerSchema();
  const whole = {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "A provider description of latchkey",
    ...made.provider,
    $defs: made.definitions,
  };
  writeFileSync(join(folder, "src/providers/provider.schema.json"), `${JSON.stringify(whole, undefined, 2)}\n`);
  return made;
}
