import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { ToolFailure } from "../../../core/scripts/script.ts";

export const invalidArgument = (message: string) => new ToolFailure("invalid_request", message);

export const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function objectArgument(value: JsonValue | undefined, name: string): JsonObject {
  if (isObject(value)) return value;
  throw invalidArgument(`\`${name}\` must be an object`);
}

export function textArgument(value: JsonValue | undefined, name: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalidArgument(`\`${name}\` must be a string that is not empty`);
}
