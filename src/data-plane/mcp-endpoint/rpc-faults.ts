import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { docUrlOf } from "../../base/fault-docs.ts";
import { errorResponse, type RpcId, rpcCodes } from "../../core/mcp-endpoint/protocol.ts";
import type { FaultPage } from "../server/routes.ts";

/** Returns a fault with the ID of the message that met it. */
export function withRpcError(fault: Fault, id: RpcId | undefined): Fault {
  if (id === undefined) return fault;
  const { code, message, mistakes, metadata, retryAfterSeconds, cause } = fault;
  return new Fault(code, message, {
    mistakes,
    metadata,
    ...(cause !== undefined && { cause }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    rpcError: { code: rpcCodeOf(fault), id: JSON.stringify(id) },
  });
}

function rpcCodeOf({ code, status }: Fault): number {
  if (code === "invalid_json") return rpcCodes.parseError;
  // As a call of a tool that is refused by a rule of an MCP server that is called through Latchkey.
  if (code === "not_in_session" || code === "denied_by_policy") return rpcCodes.invalidParams;
  return status >= 500 ? rpcCodes.internalError : rpcCodes.invalidRequest;
}

/** Faults as MCP clients read them. */
export const rpcFaultPage: FaultPage = (fault) => {
  const { status, rpcError } = fault;
  const id = rpcError === undefined ? undefined : (JSON.parse(rpcError.id) as RpcId);
  return { status, body: rpcErrorBody(fault, id) };
};

export function rpcErrorBody(fault: Fault, id: RpcId | undefined): JsonObject {
  const { code, message } = fault;
  return errorResponse(id, { code: rpcCodeOf(fault), message, data: { code, doc_url: docUrlOf(code) } });
}
