import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../core/dialect/json-fields.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** Requires a JSON object; `name` is used in the error message. */
export function readJsonObject(value: unknown, name: string): JsonObject {
  if (!isObject(value)) throw new UsageMistake(`${name} must be a JSON object`);
  return value;
}
