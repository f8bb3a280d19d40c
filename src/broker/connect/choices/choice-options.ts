import { hash } from "node:crypto";
import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { checkConnectionConfig } from "../../../core/connection-rules.ts";
import { type ChoiceOption, ChoiceOptionSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { ChoiceRule, ConnectionField } from "../../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../../providers/dotted-path.ts";

const maxOptions = 1_000;
const maxLabelLength = 200;
const maxValueLength = 2_048;

interface OptionsRequest {
  readonly rule: ChoiceRule;
  /** The provider's response. */
  readonly body: JsonValue;
  readonly fields: readonly ConnectionField[];
  /** What the connection has now. */
  readonly config: JsonObject;
}

/** Returns the options in a provider's response; undefined if it has no list. Leaves out what cannot be stored. */
export function optionsIn({ rule, body, fields, config }: OptionsRequest): ChoiceOption[] | undefined {
  const items = rule.items === "" ? body : valueAt(rule.items, body);
  if (!Array.isArray(items)) return undefined;
  const options = new Map<string, ChoiceOption>();
  for (const item of items) {
    const values = valuesIn(item, rule, fields);
    if (values === undefined) continue;
    const id = idOf(values);
    const label = labelOf(valueAt(rule.label, item)) || (Object.values(values)[0] ?? "");
    const chosen = Object.entries(values).every(([name, value]) => config[name] === value);
    if (!options.has(id)) options.set(id, create(ChoiceOptionSchema, { id, label, connectionConfig: values, chosen }));
    if (options.size === maxOptions) break;
  }
  return [...options.values()];
}

/** Returns the values of an item; undefined if one is missing or not allowed. */
function valuesIn(
  item: JsonValue,
  { connectionConfig }: ChoiceRule,
  fields: readonly ConnectionField[],
): Record<string, string> | undefined {
  const values: Record<string, string> = {};
  for (const [name, path] of Object.entries(connectionConfig)) {
    const value = textOf(valueAt(path, item));
    const named = fields.filter((field) => field.name === name);
    if (value === "" || value.length > maxValueLength) return undefined;
    if (checkConnectionConfig({ [name]: value }, named).length > 0) return undefined;
    values[name] = value;
  }
  return values;
}

const textOf = (value: JsonValue | undefined): string =>
  typeof value === "string" || (typeof value === "number" && Number.isSafeInteger(value)) ? String(value) : "";

/** Strangers write the labels: control and format characters could hide or reorder the text around them. */
const labelOf = (value: JsonValue | undefined): string =>
  textOf(value)
    .slice(0, 4 * maxLabelLength)
    .toWellFormed()
    .replace(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .trim()
    .slice(0, maxLabelLength);

const idOf = (values: Readonly<Record<string, string>>): string =>
  hash("sha256", JSON.stringify(Object.entries(values).toSorted()), "base64url").slice(0, 22);
