import type { JsonObject } from "@bufbuild/protobuf";
import { isObject } from "../../../core/dialect/json-fields.ts";
import { RpcFailure, rpcCodes } from "../../../core/mcp-endpoint/protocol.ts";
import type { RpcRequest } from "../rpc-request.ts";

/** Rounds of questions are limited; this also limits links and approvals that clients accept without their users. */
const maxAsked = 20;

/**
 * Makes a call of a client of 2025-11-25 again and again, with its answers, until it needs no more of them. Later
 * clients do this themselves.
 */
export async function inRounds<T extends JsonObject | undefined>(
  request: RpcRequest,
  attempt: (request: RpcRequest) => Promise<T>,
): Promise<T> {
  const { params, askClient } = request;
  let now = request;
  for (let asked = 0; ; asked += 1) {
    const found = await attempt(now);
    if (askClient === undefined || found?.["resultType"] !== "input_required") return found;
    if (asked >= maxAsked)
      throw new RpcFailure(rpcCodes.internalError, `the call has asked its client ${maxAsked} times`);
    const { inputRequests, requestState = "" } = found;
    const { caller, answers } = await askClient(isObject(inputRequests) ? inputRequests : {});
    now = { ...request, caller, params: { ...params, requestState, inputResponses: answers } };
  }
}
