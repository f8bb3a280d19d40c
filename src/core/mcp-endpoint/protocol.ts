import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../dialect/json-fields.ts";

/** The version in which each request says everything about its client. */
export const modernVersion = "2026-07-28";
/** Versions in which `initialize` comes first, newest first. */
export const legacyVersions = ["2025-11-25", "2025-06-18", "2025-03-26"] as const;
export const supportedVersions: readonly string[] = [modernVersion, ...legacyVersions];

/** Error codes of JSON-RPC 2.0 (section 5.1) and of MCP. */
export const rpcCodes = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internalError: -32_603,
  headerMismatch: -32_020,
  /** The client has not declared a capability that the request needs. */
  missingCapability: -32_021,
  unsupportedVersion: -32_022,
  /** Only before 2026-07-28. */
  resourceNotFound: -32_002,
  /** The client must open a URL, and call again. Only in 2025-11-25. */
  urlElicitationRequired: -32_042,
} as const;

type RpcCode = (typeof rpcCodes)[keyof typeof rpcCodes];

interface RpcFailureDetails {
  /** HTTP status of the response. */
  readonly status?: number;
  readonly data?: JsonObject;
}

/** Ends a request with a JSON-RPC error. */
export class RpcFailure extends Error {
  override readonly name = "RpcFailure";
  readonly code: RpcCode;
  readonly status: number;
  readonly data: JsonObject | undefined;

  constructor(code: RpcCode, message: string, { status = 200, data }: RpcFailureDetails = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.data = data;
  }
}

export type RpcId = string | number;

/** A message of a client. */
export type ClientMessage =
  | { readonly kind: "request"; readonly id: RpcId; readonly method: string; readonly params: JsonObject }
  | { readonly kind: "notification"; readonly method: string }
  | ClientReply;

/** An answer to a request of ours. */
export interface ClientReply {
  readonly kind: "response";
  /** Undefined: none that could be ours. */
  readonly id: RpcId | undefined;
  /** What the client has answered. Undefined: an error. */
  readonly result: JsonValue | undefined;
  readonly error: JsonValue | undefined;
}

/** Reads a JSON-RPC message. Throws `RpcFailure`. */
export function readMessage(body: JsonObject): ClientMessage {
  const { jsonrpc, id, method, params } = body;
  if (jsonrpc !== "2.0") throw invalidRequest('`jsonrpc` must be "2.0"');
  if (isResponse(body)) {
    return { kind: "response", id: idOf(body), result: body["result"], error: body["error"] };
  }
  if (typeof method !== "string" || method === "") throw invalidRequest("`method` must be the name of a method");
  if (id === undefined) return { kind: "notification", method };
  if (!isRpcId(id)) throw invalidRequest("`id` must be text or a whole number");
  if (params !== undefined && !isObject(params)) throw invalidParams("`params` must be an object");
  return { kind: "request", id, method, params: params ?? {} };
}

const isResponse = (body: JsonObject): boolean => body["method"] === undefined && ("result" in body || "error" in body);

const idOf = ({ id }: JsonObject): RpcId | undefined => (isRpcId(id) ? id : undefined);

/** Returns the ID of a request that may be malformed. That of a response is none: an error is no answer to it. */
export const requestIdOf = (body: JsonObject): RpcId | undefined => (isResponse(body) ? undefined : idOf(body));

const isRpcId = (id: JsonValue | undefined): id is RpcId => typeof id === "string" || Number.isSafeInteger(id);

const invalidRequest = (message: string) => new RpcFailure(rpcCodes.invalidRequest, message, { status: 400 });

/** Refuses parameters. Of a modern request without its metadata, the status must be 400. */
export const invalidParams = (message: string, status = 200): RpcFailure =>
  new RpcFailure(rpcCodes.invalidParams, message, { status });

export interface RpcErrorBody {
  readonly code: number;
  readonly message: string;
  readonly data?: JsonObject | undefined;
}

/** Returns an error response. Without an ID if that could not be read. */
export const errorResponse = (id: RpcId | undefined, { code, message, data }: RpcErrorBody): JsonObject => ({
  jsonrpc: "2.0",
  ...(id !== undefined && { id }),
  error: { code, message, ...(data !== undefined && { data }) },
});

export const resultResponse = (id: RpcId, result: JsonObject): JsonObject => ({ jsonrpc: "2.0", id, result });
