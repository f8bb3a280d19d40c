import type { DescEnum, DescField, DescMessage } from "@bufbuild/protobuf";
import { hintOf } from "../../base/similar.ts";

/** A mistake in a JSON message, in the words of its sender: fields, not types. */
interface JsonMistake {
  readonly message: string;
  readonly path: string;
  readonly hint?: string;
}

const unknownKey = /cannot decode message ([\w.]+) from JSON: key "([^"]*)" is unknown/;
const wrongPart = /cannot decode (?:enum|message) ([\w.]+) from JSON:? (.*)$/s;
const wrongValue = /cannot decode field ([\w.]+) from JSON: (.*)$/s;

/** Reads the decoder's message, which names types of ours. Undefined: the message is of another form. */
export function mistakeInJson(text: string, input: DescMessage): JsonMistake | undefined {
  const [, typeName, key] = unknownKey.exec(text) ?? [];
  if (typeName !== undefined && key !== undefined) {
    const desc = messagesIn(input).find((one) => one.typeName === typeName);
    const hint = desc && hintOf(key, namesOf(desc, key));
    return {
      message: `unknown field "${key}"${hint === undefined ? "" : `; ${hint}`}`,
      path: key,
      ...(hint && { hint }),
    };
  }
  const [, field, why] = wrongValue.exec(text) ?? [];
  if (field !== undefined && why !== undefined) {
    const name = field.slice(field.lastIndexOf(".") + 1);
    return { message: `"${name}" is not valid: ${why}`, path: name };
  }
  const [, type, reason] = wrongPart.exec(text) ?? [];
  return type === undefined || reason === undefined ? undefined : mistakeInPart(type, reason, input);
}

/** The decoder names only the type of a value: find the fields that may hold it. */
function mistakeInPart(typeName: string, reason: string, input: DescMessage): JsonMistake | undefined {
  const fields = messagesIn(input).flatMap((desc) => desc.fields.filter((one) => typeOf(one)?.typeName === typeName));
  const names = [...new Set(fields.map(({ name }) => name))];
  if (names.length === 0) {
    return typeName === input.typeName ? { message: `the message is not valid: ${reason}`, path: "" } : undefined;
  }
  const [type] = fields.map(typeOf);
  const [, written] = /^"(.*)"$/s.exec(reason) ?? [];
  const hint =
    type?.kind === "enum" && written
      ? hintOf(
          written,
          type.values.map(({ name }) => name),
        )
      : undefined;
  const message = `${names.map((name) => `"${name}"`).join(" or ")} is not valid: ${reason}`;
  return { message, path: names.length === 1 ? (names[0] ?? "") : "", ...(hint && { hint }) };
}

/** Returns the names of fields in the form in which the key is written: `clientId` or `client_id`. */
const namesOf = ({ fields }: DescMessage, key: string): string[] =>
  fields.map(({ name, jsonName }) => (key.includes("_") ? name : jsonName));

/** Returns a message type and the types of its fields, with theirs. */
function messagesIn(root: DescMessage): readonly DescMessage[] {
  const found = new Set<DescMessage>();
  const open = [root];
  for (let desc = open.pop(); desc !== undefined; desc = open.pop()) {
    if (found.has(desc)) continue;
    found.add(desc);
    for (const field of desc.fields) {
      const type = typeOf(field);
      if (type?.kind === "message") open.push(type);
    }
  }
  return [...found];
}

/** Returns the message or enum of a field, or of its items. */
const typeOf = ({ message, enum: values }: DescField): DescMessage | DescEnum | undefined => message ?? values;
