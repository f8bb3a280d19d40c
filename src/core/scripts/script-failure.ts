import type { JsonValue } from "@bufbuild/protobuf";
import type { ScriptErrorCode, ScriptErrorDetails } from "../../base/fault.ts";
import { type Redact, redactJson } from "../secrets/redaction.ts";
import type { ScriptFailure, UpstreamFailure } from "./script.ts";

/** The part of a failure that is stored encrypted beside its run. */
export type StoredFailure = Pick<ScriptFailure, "payload" | "upstream">;

type CodedFailure = StoredFailure & { readonly code: string; readonly message: string };

export function scriptErrorOf({ code, message, payload, upstream }: CodedFailure): ScriptErrorDetails {
  const named = { code: codeOf(code, upstream), payload: payloadOf(payload ?? errorPayload(code, message)) };
  const response = upstream?.response;
  if (response === undefined) return named;
  const { status, headers, body } = response;
  return { ...named, additionalProperties: { upstream_response: { status, headers: { ...headers }, body } } };
}

function codeOf(code: string, upstream: UpstreamFailure | undefined): ScriptErrorCode {
  if (code === "action_error") return "action_script_runtime_error";
  if (code === "invalid_output") return "invalid_action_output";
  if (upstream === undefined) return "action_script_failure";
  return upstream.response === undefined ? "script_network_error" : "script_http_error";
}

/** Unless the error is one of JavaScript's own, the message begins with its name. */
function errorPayload(code: string, message: string): JsonValue {
  if (code !== "script_error") return { name: code, message };
  const [, name = "Error", rest = message] = /^(\w*Error): ([\s\S]*)$/.exec(message) ?? [];
  return { name, message: rest };
}

/** The SDK's payload type is an object or an array: any other value becomes its `message`. */
function payloadOf(payload: JsonValue): JsonValue {
  if (payload === null) return {};
  return typeof payload === "object" ? payload : { message: typeof payload === "string" ? payload : String(payload) };
}

export const storedFailureOf = ({ payload, upstream }: StoredFailure): StoredFailure | undefined =>
  payload === undefined && upstream === undefined
    ? undefined
    : { ...(payload !== undefined && { payload }), ...(upstream && { upstream }) };

export function withoutSecrets(failure: ScriptFailure, redact: Redact): ScriptFailure {
  const { message, payload, upstream } = failure;
  const response = upstream?.response;
  return {
    ...failure,
    message: redact(message),
    ...(payload !== undefined && { payload: redactJson(payload, redact) }),
    ...(response && {
      upstream: {
        response: {
          ...response,
          headers: Object.fromEntries(Object.entries(response.headers).map(([name, value]) => [name, redact(value)])),
          body: redactJson(response.body, redact),
        },
      },
    }),
  };
}
