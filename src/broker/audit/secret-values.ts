import type { DescField, DescMessage, JsonValue, Message } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { looksRandom } from "../../core/secrets/redaction.ts";

/**
 * Collects every text in a message that is in a field marked as secret in the proto (`debug_redact`), at any depth.
 * From a provider's whole response (`raw`), collects only values with a secret-like name or a random look: the rest is
 * words and addresses.
 */
export function secretValues(schema: DescMessage, message: Message): string[] {
  const found: string[] = [];
  inMessage({ schema, message: message as unknown as SecretFields, isSecret: false, found });
  return found;
}

/** A message as a plain object: fields by name; a oneof holds its case and value. */
type SecretFields = Readonly<Record<string, unknown>>;

interface SecretScan {
  readonly schema: DescMessage;
  readonly message: SecretFields;
  readonly isSecret: boolean;
  readonly found: string[];
}

function inMessage({ schema, message, isSecret, found }: SecretScan): void {
  for (const field of schema.fields) {
    const value = valueIn(message, field);
    if (value === undefined) continue;
    const isMarked = isSecret || field.proto.options?.debugRedact === true;
    const below = field.message;
    if (below?.typeName === StructSchema.typeName) {
      // A Struct in a field is plain JSON.
      if (isMarked) inJson(value as JsonValue, { isAnswer: field.name === "raw", name: "", found });
    } else if (field.fieldKind === "map" && field.mapKind === "message") {
      for (const item of Object.values(value as Readonly<Record<string, SecretFields>>)) {
        inMessage({ schema: field.message, message: item, isSecret: isMarked, found });
      }
    } else if (field.fieldKind === "message" && below !== undefined) {
      inMessage({ schema: below, message: value as SecretFields, isSecret: isMarked, found });
    } else if (isMarked && field.fieldKind === "map") {
      inJson(value as JsonValue, { isAnswer: false, name: "", found });
    } else if (isMarked && typeof value === "string" && value !== "") {
      found.push(value);
    }
  }
}

function valueIn(message: SecretFields, { oneof, localName }: DescField): unknown {
  if (oneof === undefined) return message[localName];
  const chosen = message[oneof.localName] as { readonly case?: string; readonly value?: unknown };
  return chosen.case === localName ? chosen.value : undefined;
}

interface FieldPosition {
  readonly isAnswer: boolean;
  readonly name: string;
  readonly found: string[];
}

const isSecretName = (name: string): boolean => /token$|secret|password|key|code|assertion|signature/i.test(name);

function inJson(value: JsonValue, place: FieldPosition): void {
  const { isAnswer, name, found } = place;
  if (typeof value === "string") {
    if (value !== "" && (!isAnswer || isSecretName(name) || looksRandom(value))) found.push(value);
  } else if (Array.isArray(value)) {
    for (const item of value) inJson(item, place);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) inJson(item, { ...place, name: key });
  }
}
