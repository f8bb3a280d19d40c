import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { stepsOf } from "../../../providers/dotted-path.ts";
import type { NotificationReading } from "../reading.ts";
import { valuesOf } from "../value-rule.ts";
import type { ProofRequest } from "./scheme.ts";
import { maxParts } from "./signature.ts";
import { contentOf } from "./signed-content.ts";

/** A content, and the signatures of which one must be valid, without their prefix. */
export interface SignedMessage {
  readonly content: readonly Uint8Array[];
  readonly signatures: readonly string[];
}

/** What a notification has signed: one message, or one for each element of a list in its body. */
export interface SignedMessages {
  readonly messages: readonly SignedMessage[];
  /** Empty if the rules name no place for a timestamp. */
  readonly timestamp: string;
}

/** Returns undefined if the notification has no signature where the rules expect it, or lacks a signed value. */
export function signedMessagesOf(rules: SignatureRules, request: ProofRequest): SignedMessages | undefined {
  const { reading } = request;
  const fields = fieldsOf(rules, reading);
  const timestamp = timestampOf(rules, reading, fields);
  if (timestamp === undefined) return undefined;
  if (rules.signaturePath.includes("*")) return listedMessages(rules, reading, timestamp);
  const signatures = signaturesIn(rules, reading, fields);
  if (signatures.length === 0) return undefined;
  const content =
    rules.contentFields.length === 0
      ? contentOf(rules, { ...request, timestamp })
      : fieldContent(
          rules,
          rules.contentFields.map((path) => reading.textsAt(path)[0]),
        );
  return content === undefined ? undefined : { messages: [{ content, signatures }], timestamp };
}

/** Returns the header fields with signatures. */
function fieldsOf({ header, furtherHeaders }: SignatureRules, reading: NotificationReading): readonly string[] {
  const field = header === "" ? undefined : reading.header(header);
  const fields = field === undefined ? [] : [field];
  for (const name of furtherHeaders) {
    const further = reading.header(name);
    if (further !== undefined) fields.push(further);
  }
  return fields;
}

function signaturesIn(
  { part, prefix, separator, signaturePath, signatureValue }: SignatureRules,
  reading: NotificationReading,
  fields: readonly string[],
): readonly string[] {
  const sent = part === "" ? [...fields] : fields.flatMap((field) => namedIn(field, part, separator));
  if (signaturePath !== "") {
    const [text] = reading.textsAt(signaturePath);
    if (text !== undefined) sent.push(text);
  }
  if (signatureValue !== undefined) sent.push(...valuesOf(signatureValue, reading).slice(0, maxParts));
  return sent
    .filter((text) => text.startsWith(prefix) && text.length > prefix.length)
    .map((text) => text.slice(prefix.length));
}

/** Returns an empty text if the rules name no place for a timestamp; undefined if it is missing there. */
function timestampOf(
  { timestampPart, timestampHeader, timestampPath, separator }: SignatureRules,
  reading: NotificationReading,
  fields: readonly string[],
): string | undefined {
  if (timestampPart === "" && timestampHeader === "" && timestampPath === "") return "";
  const found =
    timestampPart !== ""
      ? fields.flatMap((field) => namedIn(field, timestampPart, separator))[0]
      : timestampHeader !== ""
        ? reading.header(timestampHeader)
        : reading.textsAt(timestampPath)[0];
  return found === "" ? undefined : found;
}

/** Returns the values of a name in `t=1,v1=a,v1=b`. */
const namedIn = (field: string, name: string, separator: string): readonly string[] =>
  field
    .split(separator || ",", maxParts)
    .map((one) => one.trim())
    .filter((one) => one.startsWith(`${name}=`))
    .map((one) => one.slice(name.length + 1));

/** Elements of a list that each have their own signature. */
function listedMessages(
  rules: SignatureRules,
  reading: NotificationReading,
  timestamp: string,
): SignedMessages | undefined {
  const { prefix, contentFields, signaturePath } = rules;
  const sent = reading.textsAt(signaturePath);
  const fields = contentFields.map((path) => reading.textsAt(path));
  // A path without `*` would give all elements the value of the first.
  if (sent.length === 0 || fields.some((values) => values.length !== sent.length)) return undefined;
  const messages: SignedMessage[] = [];
  for (const [i, text] of sent.entries()) {
    if (text === undefined || !text.startsWith(prefix) || text.length === prefix.length) return undefined;
    const content = fieldContent(
      rules,
      fields.map((values) => values[i]),
    );
    if (content === undefined) return undefined;
    messages.push({ content, signatures: [text.slice(prefix.length)] });
  }
  return { messages, timestamp };
}

function fieldContent(
  { contentFields, contentFieldFormat }: SignatureRules,
  values: readonly (string | undefined)[],
): readonly Uint8Array[] | undefined {
  // A signature of nothing would prove any body that has none of the fields.
  if (values.every((value) => value === undefined)) return undefined;
  if (contentFieldFormat !== "name_value_lines") return [Buffer.from(values.map((value) => value ?? "").join(":"))];
  // Only the first value may have several lines, such as a message. Any further one could hold lines that were signed as
  // other fields: then the text that a sender signed for someone else would also be that of another notification.
  if (values.slice(1).some((value) => value !== undefined && /[\r\n]/.test(value))) return undefined;
  const lines = contentFields.flatMap((path, i) => {
    const value = values[i];
    return value === undefined ? [] : [`${stepsOf(path)?.at(-1) ?? ""}\n${value}\n`];
  });
  return [Buffer.from(lines.join(""))];
}
