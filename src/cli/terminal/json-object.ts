import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../core/dialect/json-fields.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** What must be a JSON object and nothing else, named as the mistake would name it. */
export function readJsonObject(value: unknown, name: string): JsonObject {
  if (!isObject(value)) throw new UsageMistake(`${name} must be a JSON object`);
  return value;
}
