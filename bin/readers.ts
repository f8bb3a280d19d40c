/**
 * Generates readers of the messages of imports. A reader accepts only messages that are plain: it reads each field as
 * `fromBinary` does, and everything it accepts is valid by the rules in the proto. It refuses the rest, also much that
 * is valid, for the library to read and judge.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type DescField, type DescMessage, type DescOneof, getOption, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence as Presence } from "@bufbuild/protobuf/wkt";
import {
  type FieldRules,
  field as fieldRules,
  Ignore,
  message as messageRules,
  oneof as oneofRules,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { ConnectionImportSchema, StreamImportConnectionsRequestSchema } from "../src/gen/latchkey/v1/connection_pb.ts";
import { root } from "./steps.ts";

const read = [ConnectionImportSchema, StreamImportConnectionsRequestSchema];
const home = "src/gen/latchkey/v1";
/** Read by functions that are written by hand. */
const byHand = ["google.protobuf.Struct", "google.protobuf.Timestamp"];

const nameOf = ({ typeName }: DescMessage): string => typeName.slice(typeName.lastIndexOf(".") + 1);

/** The rules of a field that are supported: a rule that the readers do not know must not be left out. */
interface KnownRules {
  readonly isRequired: boolean;
  readonly least: bigint;
  readonly most: bigint | undefined;
}

function rulesOf(field: DescField): KnownRules {
  const rules = getOption(field, fieldRules);
  const { ignore, required, cel, celExpression, type } = rules;
  const isApart = ignore === Ignore.ALWAYS;
  if ((ignore !== Ignore.UNSPECIFIED && !isApart) || cel.length > 0 || celExpression.length > 0)
    throw new Error(`${field}: a rule is not supported`);
  const { least, most } = lengthsIn(field, type);
  // Left out as a whole: the nested message is checked all the same.
  return { isRequired: required && !isApart, least, most };
}

function lengthsIn(field: DescField, type: FieldRules["type"]): Pick<KnownRules, "least" | "most"> {
  if (type.case === undefined) return { least: 0n, most: undefined };
  if (type.case !== "string" || field.fieldKind !== "scalar") throw new Error(`${field}: a rule is not supported`);
  const { $typeName: _, minLen = 0n, maxLen, wellKnown, example, strict, ...others } = withoutDefaults(type.value);
  if (Object.keys(others).length > 0 || wellKnown?.case !== undefined || example?.length || strict === false)
    throw new Error(`${field}: a rule of text is not supported`);
  // A character may be two UTF-16 units.
  if (minLen > 1n) throw new Error(`${field}: a length of more than one character is not supported`);
  return { least: minLen, most: maxLen };
}

type TextRules = Extract<FieldRules["type"], { case: "string" }>["value"];

/** Returns the rules that are set: others are inherited, or empty. */
function withoutDefaults(rules: TextRules): Partial<TextRules> {
  return Object.fromEntries(
    Object.entries(rules).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0)),
  );
}

function isRequired(oneof: DescOneof): boolean {
  const { required } = getOption(oneof, oneofRules);
  return required;
}

function requireNoRules(desc: DescMessage): void {
  const { cel, celExpression, oneof } = getOption(desc, messageRules);
  if (cel.length + celExpression.length + oneof.length > 0) throw new Error(`${desc}: a rule is not supported`);
}

/** Returns the messages and, recursively, the messages of their fields. */
function needed(from: readonly DescMessage[], found = new Set<DescMessage>()): Set<DescMessage> {
  for (const desc of from) {
    if (found.has(desc) || byHand.includes(desc.typeName)) continue;
    found.add(desc);
    needed(
      desc.fields.flatMap(({ message }) => message ?? []),
      found,
    );
  }
  return found;
}

/** What a new message has in place of a field; undefined: nothing. */
function emptyOf(member: DescField | DescOneof): string | undefined {
  if (member.kind === "oneof") return "{ case: undefined }";
  if (member.fieldKind === "list") return "[]";
  if (member.fieldKind === "map") return "{}";
  if (member.fieldKind !== "scalar" || member.presence !== Presence.IMPLICIT) return undefined;
  if (member.scalar === ScalarType.STRING) return '""';
  if (member.scalar === ScalarType.BOOL) return "false";
  if (member.scalar === ScalarType.UINT64) return "0n";
  throw new Error(`${member}: this kind of field is not supported`);
}

const callOf = (message: DescMessage): string => `read${nameOf(message)}(r)`;
const caseOf = ({ number }: DescField, wireType: number): string => `case ${number * 8 + wireType}:`;

function linesFor(field: DescField, { most }: KnownRules): string[] {
  const of = `m.${field.localName}`;
  const text = `r.text(${most ?? "anyLength"})`;
  switch (field.fieldKind) {
    case "message": {
      if (field.oneof === undefined)
        return [caseOf(field, 2), `  if (${of} !== undefined) r.refuse();`, `  ${of} = ${callOf(field.message)};`];
      const oneof = `m.${field.oneof.localName}`;
      return [
        caseOf(field, 2),
        `  if (${oneof}.case !== undefined) r.refuse();`,
        `  ${oneof} = { case: "${field.localName}", value: ${callOf(field.message)} };`,
      ];
    }
    case "map":
      if (field.mapKey !== ScalarType.STRING) throw new Error(`${field}: keys must be text`);
      if (field.mapKind === "message")
        return [caseOf(field, 2), `  readEntryOf(r, ${of}, read${nameOf(field.message)});`];
      if (field.mapKind === "scalar" && field.scalar === ScalarType.STRING)
        return [caseOf(field, 2), `  readEntry(r, ${of});`];
      throw new Error(`${field}: only maps of text and messages are supported`);
    case "list":
      if (field.listKind !== "scalar" || field.scalar !== ScalarType.STRING)
        throw new Error(`${field}: only lists of text are supported`);
      return [caseOf(field, 2), `  ${of}.push(${text});`];
    case "scalar":
      if (field.oneof !== undefined) throw new Error(`${field}: only messages are supported in a oneof`);
      if (field.scalar === ScalarType.STRING) return [caseOf(field, 2), `  ${of} = ${text};`];
      if (field.scalar === ScalarType.BOOL) return [caseOf(field, 0), `  ${of} = r.flag();`];
      if (field.scalar === ScalarType.UINT64)
        return [caseOf(field, 0), `  ${of} = BigInt(r.unsigned(Number.MAX_SAFE_INTEGER));`];
      throw new Error(`${field}: this kind of field is not supported`);
    default:
      throw new Error(`${field}: this kind of field is not supported`);
  }
}

/** The rules about what must be there. */
function finalLines(desc: DescMessage, rules: ReadonlyMap<DescField, KnownRules>): string[] {
  const lines = desc.oneofs
    .filter(isRequired)
    .map(({ localName }) => `if (m.${localName}.case === undefined) r.refuse();`);
  for (const [field, { isRequired: isNeeded, least }] of rules) {
    if (isNeeded && field.fieldKind !== "message") throw new Error(`${field}: only messages may be required`);
    if (isNeeded) lines.push(`if (m.${field.localName} === undefined) r.refuse();`);
    if (least > 0n) lines.push(`if (m.${field.localName} === "") r.refuse();`);
  }
  return lines;
}

function functionFor(desc: DescMessage): string {
  requireNoRules(desc);
  const rules = new Map(desc.fields.map((field) => [field, rulesOf(field)]));
  const initial = desc.members.flatMap((member) => {
    const empty = emptyOf(member);
    return empty === undefined ? [] : [`${member.localName}: ${empty}`];
  });
  const cases = [...rules].flatMap(([field, known]) => [...linesFor(field, known), "  break;"]);
  const isTop = read.some(({ typeName }) => typeName === desc.typeName);
  const fields = [
    "while (r.hasMore()) {",
    ...["switch (r.tag()) {", ...cases.map((line) => `  ${line}`), "  default:", "    r.refuse();", "}"].map(
      (line) => `  ${line}`,
    ),
    "}",
    ...finalLines(desc, rules),
    "return m;",
  ];
  const name = nameOf(desc);
  const literal = `{ ${[`$typeName: "${desc.typeName}"`, ...initial].join(", ")} }`;
  const body = [`const m: ${name} = ${literal};`, ...fields];
  const fieldsName = isTop ? `fieldsOf${name}` : undefined;
  const text = (lines: readonly string[]) => lines.map((line) => `  ${line}\n`).join("");
  if (fieldsName === undefined) {
    const nested = body.flatMap((line) => (line === "return m;" ? ["r.end(outer);", line] : [line]));
    return `function read${name}(r: MessageReader): ${name} {\n${text(["const outer = r.begin();", ...nested])}}\n`;
  }
  const top = `function ${fieldsName}(r: MessageReader): ${name} {\n${text(body)}}\n`;
  if (!all.some(({ fields }) => fields.some(({ message }) => message === desc))) return top;
  const nested = ["const outer = r.begin();", `const m = ${fieldsName}(r);`, "r.end(outer);", "return m;"];
  return `${top}\nfunction read${name}(r: MessageReader): ${name} {\n${text(nested)}}\n`;
}

const all = [...needed(read)];
const imports = [...Map.groupBy(all, ({ file }) => `../../${file.name}_pb.ts`.replace("../../latchkey/v1/", "./"))]
  .toSorted(([a], [b]) => (a < b ? -1 : 1))
  .map(([source, descs]) => `import type { ${descs.map(nameOf).toSorted().join(", ")} } from "${source}";\n`)
  .join("");

/** Written by hand, and copied: the generated folder imports nothing of the others. */
const written = readFileSync(join(import.meta.dirname, "message-reader.ts"), "utf8")
  .replace(/^\/\/.*\n/, "")
  .replace(/^(import [^;]*;\n)+/gm, "")
  .replace(/^export (function|const)/gm, "$1")
  .trim();

const table = read.map((desc) => `  "${desc.typeName}": fieldsOf${nameOf(desc)},\n`).join("");

const text = `// @generated by bin/readers.ts

import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
${imports}
${written}

function readEntryOf<T>(r: MessageReader, into: Record<string, T>, readValueOf: (r: MessageReader) => T): void {
  const outer = r.begin();
  if (r.tag() !== 10) r.refuse();
  const key = r.text(anyLength);
  if (key === "__proto__" || r.tag() !== 18) r.refuse();
  into[key] = readValueOf(r);
  r.end(outer);
}

${all.map(functionFor).join("\n")}
/** Readers by type name. */
export const messageReaders = {
${table}} as const;
`;

const [, , into = root] = process.argv;
const path = join(into, home, "import_readers.ts");
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, text);
