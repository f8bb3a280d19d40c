import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** All error codes for callers, with their HTTP status and RPC code. The message is written where the error happens. */
export const faults = {
  missing_auth_header: { status: 401, rpc: "Unauthenticated" },
  malformed_auth_header: { status: 401, rpc: "Unauthenticated" },
  unknown_key: { status: 401, rpc: "Unauthenticated" },
  unknown_session: { status: 401, rpc: "Unauthenticated" },
  unproven_webhook: { status: 401, rpc: "Unauthenticated" },
  identity_refused: { status: 401, rpc: "Unauthenticated" },
  subject_token_refused: { status: 401, rpc: "Unauthenticated" },
  signed_out: { status: 401, rpc: "Unauthenticated" },
  proxy_key_required: { status: 407, rpc: "Unauthenticated" },
  missing_scope: { status: 403, rpc: "PermissionDenied" },
  identity_not_allowed: { status: 403, rpc: "PermissionDenied" },
  not_in_session: { status: 403, rpc: "PermissionDenied" },
  on_behalf_refused: { status: 403, rpc: "PermissionDenied" },
  denied_by_policy: { status: 403, rpc: "PermissionDenied" },
  approval_required: { status: 202, rpc: "FailedPrecondition" },
  approval_denied: { status: 403, rpc: "PermissionDenied" },
  self_approval: { status: 403, rpc: "PermissionDenied" },
  key_required: { status: 403, rpc: "PermissionDenied" },
  other_browser: { status: 403, rpc: "PermissionDenied" },
  origin_not_allowed: { status: 403, rpc: "PermissionDenied" },
  host_not_allowed: { status: 403, rpc: "PermissionDenied" },
  misdirected_request: { status: 421, rpc: "PermissionDenied" },
  invalid_headers: { status: 400, rpc: "InvalidArgument" },
  subject_token_required: { status: 400, rpc: "InvalidArgument" },
  duplicate_header: { status: 400, rpc: "InvalidArgument" },
  header_mismatch: { status: 400, rpc: "InvalidArgument" },
  invalid_message: { status: 400, rpc: "InvalidArgument" },
  invalid_path: { status: 400, rpc: "InvalidArgument" },
  invalid_query_params: { status: 400, rpc: "InvalidArgument" },
  invalid_json: { status: 400, rpc: "InvalidArgument" },
  invalid_body: { status: 400, rpc: "InvalidArgument" },
  malformed_request: { status: 400, rpc: "InvalidArgument" },
  unknown_authorization: { status: 400, rpc: "InvalidArgument" },
  connection_test_failed: { status: 400, rpc: "FailedPrecondition" },
  unknown_environment: { status: 404, rpc: "NotFound" },
  unknown_provider: { status: 404, rpc: "NotFound" },
  unknown_provider_config: { status: 404, rpc: "NotFound" },
  unknown_connection: { status: 404, rpc: "NotFound" },
  unknown_sync: { status: 404, rpc: "NotFound" },
  unknown_action: { status: 404, rpc: "NotFound" },
  ambiguous_function: { status: 400, rpc: "InvalidArgument" },
  function_managed_by_deploy: { status: 400, rpc: "FailedPrecondition" },
  not_found: { status: 404, rpc: "NotFound" },
  method_not_allowed: { status: 405, rpc: "Unimplemented" },
  request_timeout: { status: 408, rpc: "DeadlineExceeded" },
  already_exists: { status: 409, rpc: "AlreadyExists" },
  conflict: { status: 409, rpc: "Aborted" },
  ambiguous_connection: { status: 409, rpc: "FailedPrecondition" },
  in_use: { status: 409, rpc: "FailedPrecondition" },
  read_only: { status: 409, rpc: "FailedPrecondition" },
  approval_mismatch: { status: 409, rpc: "FailedPrecondition" },
  approval_used: { status: 409, rpc: "FailedPrecondition" },
  payload_too_large: { status: 413, rpc: "ResourceExhausted" },
  uri_too_long: { status: 414, rpc: "InvalidArgument" },
  unsupported_media_type: { status: 415, rpc: "InvalidArgument" },
  headers_too_large: { status: 431, rpc: "ResourceExhausted" },
  reauthorization_required: { status: 424, rpc: "FailedPrecondition" },
  connection_unusable: { status: 424, rpc: "FailedPrecondition" },
  choice_needed: { status: 424, rpc: "FailedPrecondition" },
  integration_misconfigured: { status: 424, rpc: "FailedPrecondition" },
  discovery_failed: { status: 424, rpc: "FailedPrecondition" },
  client_required: { status: 424, rpc: "FailedPrecondition" },
  authorization_failed: { status: 424, rpc: "FailedPrecondition" },
  script_failed: { status: 424, rpc: "FailedPrecondition" },
  too_many_requests: { status: 429, rpc: "ResourceExhausted" },
  watch_too_slow: { status: 429, rpc: "ResourceExhausted" },
  not_implemented: { status: 501, rpc: "Unimplemented" },
  refresh_unavailable: { status: 503, rpc: "Unavailable" },
  exchange_unavailable: { status: 503, rpc: "Unavailable" },
  store_unavailable: { status: 503, rpc: "Unavailable" },
  identity_keys_unavailable: { status: 503, rpc: "Unavailable" },
  brokers_unavailable: { status: 503, rpc: "Unavailable" },
  overloaded: { status: 503, rpc: "Unavailable" },
  provider_unreachable: { status: 502, rpc: "Unavailable" },
  provider_unknown: { status: 502, rpc: "Unavailable" },
  provider_untrusted: { status: 502, rpc: "Unavailable" },
  egress_proxy_failed: { status: 502, rpc: "Unavailable" },
  egress_proxy_refused: { status: 502, rpc: "PermissionDenied" },
  provider_closed: { status: 502, rpc: "Unavailable" },
  provider_malformed: { status: 502, rpc: "Unavailable" },
  http2_required: { status: 502, rpc: "FailedPrecondition" },
  provider_timeout: { status: 504, rpc: "DeadlineExceeded" },
  credential_echo: { status: 502, rpc: "Unavailable" },
  not_ready: { status: 503, rpc: "Unavailable" },
  internal: { status: 500, rpc: "Internal" },
} as const;

export type FaultCode = keyof typeof faults;

/** A mistake in a request, with its place. */
export interface Mistake {
  readonly path: readonly string[];
  readonly message: string;
}

/** A script's failure in the SDK's terms: the code and its payload. */
export interface ScriptErrorDetails {
  readonly code: ScriptErrorCode;
  /** An object or a list. */
  readonly payload: JsonValue;
  readonly additionalProperties?: JsonObject;
  readonly runId?: string;
}

export type ScriptErrorCode =
  | "action_script_runtime_error"
  | "action_script_failure"
  | "script_http_error"
  | "script_network_error"
  | "invalid_action_output";

/** A name that was not found. The listener suggests a similar one that the caller may list. */
export interface MissingName {
  readonly kind: "integration" | "connection" | "provider" | "sync" | "action";
  readonly name: string;
  /** The environment of an integration or a connection. */
  readonly environment?: string;
  /** The integration of a connection, a sync or an action. */
  readonly integration?: string;
}

/** A JSON-RPC error (JSON-RPC 2.0, section 5.1). */
export interface RpcError {
  readonly code: number;
  /** The id of the message as JSON. */
  readonly id: string;
}

/** A whole answer for the client of another protocol, in place of the usual one. */
export interface FaultAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
}

interface FaultDetails {
  readonly answer?: FaultAnswer;
  /** What the caller probably meant. Names only what the caller may list. */
  readonly hint?: string | undefined;
  readonly missing?: MissingName;
  readonly cause?: unknown;
  readonly mistakes?: readonly Mistake[];
  /** When a retry may succeed. */
  readonly retryAfterSeconds?: number;
  /** Data for the caller of a JSON route, in addition to the message. */
  readonly payload?: JsonValue;
  /** Failure of a customer's script, for its caller. */
  readonly script?: ScriptErrorDetails;
  /** The JSON-RPC error for an MCP client, in place of the usual body. */
  readonly rpcError?: RpcError;
  /** Machine-readable details, such as the current revision in a conflict. Never a secret. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Stops a request. The caller sees the message, which never quotes a secret; the cause is only logged. */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly mistakes: readonly Mistake[];
  readonly retryAfterSeconds: number | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly payload: JsonValue | undefined;
  readonly script: ScriptErrorDetails | undefined;
  readonly rpcError: RpcError | undefined;
  readonly answer: FaultAnswer | undefined;
  readonly missing: MissingName | undefined;
  /** Set later for a missing name: only the listener knows what the caller may list. */
  hint: string | undefined;

  constructor(code: FaultCode, message: string, details: FaultDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.mistakes = details.mistakes ?? [];
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.metadata = details.metadata ?? {};
    this.script = details.script;
    this.rpcError = details.rpcError;
    this.answer = details.answer;
    this.missing = details.missing;
    this.hint = details.hint;
    this.payload = details.script?.payload ?? details.payload;
  }

  get status(): number {
    return this.answer?.status ?? faults[this.code].status;
  }

  get rpc(): (typeof faults)[FaultCode]["rpc"] {
    return faults[this.code].rpc;
  }

  /** Creates a fault without a stack, for frequent refusals: the stack is a third of their cost. */
  static withoutStack(code: FaultCode, message: string, details: FaultDetails = {}): Fault {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    const made = new Fault(code, message, details);
    Error.stackTraceLimit = stackTraceLimit;
    return made;
  }

  /** Converts anything thrown to a Fault. Unexpected errors tell the caller nothing. */
  static from(thrown: unknown): Fault {
    return thrown instanceof Fault ? thrown : new Fault("internal", "internal error", { cause: thrown });
  }
}
