import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { emailHash } from "../../core/notifications/email-hash.ts";
import { type DescribeRule, LookupRule_Transform } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";

/** Values stored with a connection because its provider reported them. */
export interface DescribedValues {
  readonly metadata: JsonObject;
  readonly connectionConfig: JsonObject;
}

/**
 * Extracts the values that these rules name from a response, under the fields they name. Missing values are omitted.
 */
export function describedValues(rules: readonly DescribeRule[], answer: JsonValue): DescribedValues {
  const described = { metadata: {} as JsonObject, connectionConfig: {} as JsonObject };
  for (const { value: path, field, transform } of rules) {
    const found = valueAt(path, answer);
    if (found === undefined || found === null || found === "") continue;
    const value = transformed(found, transform);
    const [, place, name = ""] = /^(metadata|connection_config)\.(.+)$/s.exec(field) ?? [];
    if (value === undefined || place === undefined) continue;
    if (place === "metadata") described.metadata[name] = value;
    // Values of connection fields are texts.
    else described.connectionConfig[name] = typeof value === "number" ? String(value) : value;
  }
  return described;
}

function transformed(value: JsonValue, transform: LookupRule_Transform): JsonValue | undefined {
  if (transform === LookupRule_Transform.UNSPECIFIED) return value;
  if (typeof value !== "string") return undefined;
  return transform === LookupRule_Transform.EMAIL_HASH ? emailHash(value) : value.toLowerCase();
}
