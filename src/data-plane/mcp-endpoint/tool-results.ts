import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Fault } from "../../base/fault.ts";
import { docUrlOf } from "../../base/fault-docs.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import { RpcFailure, rpcCodes } from "../../core/mcp-endpoint/protocol.ts";
import type { ToolAnswer } from "./tool-runner.ts";

/** Name of the request for a URL, by which the client's answer is found. */
export const connectRequest = "connect";

type LinkAnswer = Extract<ToolAnswer, { readonly kind: "link" }>;

/**
 * Returns the result of a call in the form that the client takes. Throws the error by which older clients are asked to
 * open a URL.
 */
export function resultFor(answer: ToolAnswer, client: ClientProfile): JsonObject {
  switch (answer.kind) {
    case "result":
      return toolResult(answer.result.value, answer.result.isError === true);
    case "fault":
      return toolResult(faultJson(answer.fault), true);
    case "link":
      return linkResult(answer, client);
  }
}

/** The user has not followed the link: another call asks again. */
export const declinedResult = (reply: "decline" | "cancel"): JsonObject =>
  toolResult(
    {
      error: {
        code: "account_not_connected",
        message:
          reply === "decline" ? "the user declined to connect the account" : "the user has not connected the account",
      },
    },
    true,
  );

/** As text for all clients, and as a value for those that read it. */
function toolResult(value: JsonValue, isError: boolean): JsonObject {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return {
    content: [{ type: "text", text }],
    ...(isObject(value) && { structuredContent: value }),
    ...(isError && { isError: true }),
  };
}

function faultJson({ code, message, hint, script, payload }: Fault): JsonObject {
  return {
    error: {
      code: script?.code ?? code,
      message,
      ...(hint !== undefined && { hint }),
      ...(payload !== undefined && { payload }),
      doc_url: docUrlOf(code),
    },
  };
}

function linkResult(answer: LinkAnswer, client: ClientProfile): JsonObject {
  const { url, sessionId } = answer.link;
  const message = messageOf(answer);
  if (!client.opensUrls) {
    const { code } = answer.fault;
    const error = { code, message: `${message} Give the user this link, then call the tool again: ${url}` };
    return { ...toolResult({ error, connect_link: url }, true), content: [{ type: "text", text: error.message }] };
  }
  const request = { mode: "url", message, url };
  if (client.era === "modern") {
    return {
      resultType: "input_required",
      inputRequests: { [connectRequest]: { method: "elicitation/create", params: request } },
      // Says only what to wait for: the call is judged again, as if it were the first.
      requestState: sessionId,
    };
  }
  throw new RpcFailure(rpcCodes.urlElicitationRequired, message, {
    data: { elicitations: [{ ...request, elicitationId: sessionId }] },
  });
}

function messageOf({ fault, connection }: LinkAnswer): string {
  const account = `an account of ${connection.integration}`;
  const whose = connection.id === "" ? account : `${account} (${connection.id})`;
  return fault.code === "reauthorization_required"
    ? `The connection to ${whose} no longer works: connect it again.`
    : `Connect ${whose} to continue.`;
}
