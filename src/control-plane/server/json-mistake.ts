import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { hintOf } from "../../base/similar.ts";

/** A mistake in a JSON message, in the words of its sender: fields, not types. */
interface JsonMistake {
  readonly message: string;
  readonly path: string;
  readonly hint?: string;
}

const unknownKey = /cannot decode message ([\w.]+) from JSON: key "([^"]*)" is unknown/;
const wrongValue = /cannot decode field ([\w.]+) from JSON: (.*)$/s;

/** Reads the decoder's message, which names types of ours. Undefined: the message is of another form. */
export function mistakeInJson(text: string, input: DescMessage): JsonMistake | undefined {
  const [, typeName, key] = unknownKey.exec(text) ?? [];
  if (typeName !== undefined && key !== undefined) {
    const desc = findMessage(input, typeName);
    const hint = desc && hintOf(key, namesOf(desc, key));
    return {
      message: `unknown field "${key}"${hint === undefined ? "" : `; ${hint}`}`,
      path: key,
      ...(hint && { hint }),
    };
  }
  const [, field, why] = wrongValue.exec(text) ?? [];
  if (field === undefined || why === undefined) return undefined;
  const name = field.slice(field.lastIndexOf(".") + 1);
  return { message: `"${name}" is not valid: ${why}`, path: name };
}

/** Returns the names of fields in the form in which the key is written: `clientId` or `client_id`. */
const namesOf = ({ fields }: DescMessage, key: string): string[] =>
  fields.map(({ name, jsonName }) => (key.includes("_") ? name : jsonName));

/** Finds a message type by name, in the type and the types of its fields. */
function findMessage(root: DescMessage, typeName: string): DescMessage | undefined {
  const seen = new Set<DescMessage>();
  const open = [root];
  for (let desc = open.pop(); desc !== undefined; desc = open.pop()) {
    if (desc.typeName === typeName) return desc;
    if (seen.has(desc)) continue;
    seen.add(desc);
    open.push(...desc.fields.flatMap(messageOf));
  }
  return undefined;
}

function messageOf(field: DescField): DescMessage[] {
  if (field.fieldKind === "message") return [field.message];
  if (field.fieldKind === "list" && field.listKind === "message") return [field.message];
  return field.fieldKind === "map" && field.mapKind === "message" ? [field.message] : [];
}
