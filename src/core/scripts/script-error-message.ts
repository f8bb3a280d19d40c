import { create, fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { ScriptErrorDetails } from "../../base/fault.ts";
import { type ScriptError, ScriptErrorSchema } from "../../gen/latchkey/v1/sync_pb.ts";
import { depthOf } from "../connection-rules.ts";

/** The nesting limit of protobuf readers. */
const maxDepth = 32;

/** Converts a script's error to protobuf, without the payload and body if they exceed `maxBytes` of JSON. */
export function scriptErrorMessage(details: ScriptErrorDetails, maxBytes = Number.POSITIVE_INFINITY): ScriptError {
  const { code, payload, additionalProperties, runId = "" } = details;
  const response = additionalProperties?.["upstream_response"] as JsonObject | undefined;
  const fits =
    depthOf(details as unknown as JsonValue) < maxDepth &&
    Buffer.byteLength(JSON.stringify([payload, response ?? null])) <= maxBytes;
  return create(ScriptErrorSchema, {
    code,
    runId,
    payloadOmitted: !fits,
    ...(fits && { payload: protoValue(payload) }),
    ...(response && {
      upstreamResponse: {
        status: Number(response["status"]),
        ...(fits && {
          headers: response["headers"] as Record<string, string>,
          body: protoValue(response["body"] ?? null),
        }),
      },
    }),
  });
}

const protoValue = (value: JsonValue): Value => fromJson(ValueSchema, value);
