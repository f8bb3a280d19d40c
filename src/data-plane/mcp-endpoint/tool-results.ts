import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Fault } from "../../base/fault.ts";
import { docUrlOf } from "../../base/fault-docs.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import type { ClientProfile } from "../../core/mcp-endpoint/client-profile.ts";
import { RpcFailure, rpcCodes } from "../../core/mcp-endpoint/protocol.ts";
import { approvalState } from "../../core/mcp-endpoint/request-state.ts";
import type { ToolResult } from "./tool-call.ts";
import type { SettledAnswer } from "./tool-runner.ts";

/** Name of the request for a URL, by which the client's answer is found. */
export const connectRequest = "connect";
export const approvalRequest = "approval";
/** Where a result's `_meta` has its error. */
const errorKey = "latchkey/error";

type WaitingAnswer = Extract<SettledAnswer, { readonly kind: "approval" }>;
type LinkAnswer = Extract<SettledAnswer, { readonly kind: "link" }>;

/** What decides about the form of a question to the user. */
export interface AnswerForm extends Pick<ClientProfile, "era" | "opensUrls"> {
  /** The client is asked within its call; else it is told by an error what to do before it calls again. */
  readonly isAskedNow: boolean;
}

/**
 * Returns the result of a call in the form that the client takes. Throws the error by which older clients are asked to
 * open a URL.
 */
export function resultFor(answer: SettledAnswer, client: AnswerForm): JsonObject {
  switch (answer.kind) {
    case "result":
      return shownResult(answer.result);
    case "fault":
      return errorResult(errorOf(answer.fault));
    case "link":
      return linkResult(answer, client);
    case "approval":
      return approvalResult(answer, client);
  }
}

/** What became of a prompt or a resource: its script's output, or a question to the user. */
type ScriptAnswer =
  | { readonly kind: "output"; readonly result: ToolResult }
  | { readonly kind: "question"; readonly question: JsonObject };

/** Does the same for methods whose results cannot say what is wrong. Throws `RpcFailure`. */
export function outputFor(answer: SettledAnswer, client: AnswerForm): ScriptAnswer {
  switch (answer.kind) {
    case "result":
      return { kind: "output", result: answer.result };
    case "fault":
      throw rpcFailureOf(answer.fault, answer.fault.message, {});
    case "link": {
      const { url } = answer.link;
      if (client.opensUrls) return { kind: "question", question: linkResult(answer, client) };
      const text = `${messageOf(answer)} Give the user this link, then ask again: ${url}`;
      throw rpcFailureOf(answer.fault, text, { connect_link: url });
    }
    case "approval":
      throw rpcFailureOf(answer.fault, answer.fault.message, {});
  }
}

function rpcFailureOf({ code, status }: Fault, message: string, more: JsonObject): RpcFailure {
  const isOfCaller = status >= 400 && status < 500 && code !== "script_failed";
  return new RpcFailure(isOfCaller ? rpcCodes.invalidParams : rpcCodes.internalError, message, {
    data: { code, ...more, doc_url: docUrlOf(code) },
  });
}

/** Says what the user has said to a question. */
export const declinedMessage = (
  reply: "decline" | "cancel",
  asked: typeof connectRequest | typeof approvalRequest,
): string => declined[asked][reply].message;

/** The user has not followed the link, or has not opened the page of the approval: another call asks again. */
export const declinedResult = (
  reply: "decline" | "cancel",
  asked: typeof connectRequest | typeof approvalRequest,
): JsonObject => errorResult(declined[asked][reply]);

const declined = {
  [connectRequest]: {
    decline: { code: "account_not_connected", message: "the user declined to connect the account" },
    cancel: { code: "account_not_connected", message: "the user has not connected the account" },
  },
  [approvalRequest]: {
    decline: { code: "approval_required", message: "the user declined to look at the approval, which still waits" },
    cancel: { code: "approval_required", message: "the user has not looked at the approval, which still waits" },
  },
} as const;

function shownResult({ value, content, isError = false }: ToolResult): JsonObject {
  if (content === undefined) return toolResult(value, isError);
  const { content: blocks, structuredContent } = content;
  return {
    content: [...blocks],
    ...(structuredContent !== undefined && { structuredContent }),
    ...(isError && { isError: true }),
  };
}

/** As text for all clients, and as a value for those that read it. */
function toolResult(value: JsonValue, isError: boolean): JsonObject {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return {
    content: [{ type: "text", text }],
    ...(isObject(value) && { structuredContent: value }),
    ...(isError && { isError: true }),
  };
}

/**
 * As text for all clients, and in `_meta` for programs. Not as `structuredContent`: clients hold it against the tool's
 * output schema, also in errors, and would show its mistakes instead of the message.
 */
function errorResult(error: JsonObject, text = JSON.stringify({ error })): JsonObject {
  return { content: [{ type: "text", text }], isError: true, _meta: { [errorKey]: error } };
}

function errorOf({ code, message, hint, script, payload }: Fault): JsonObject {
  return {
    code: script?.code ?? code,
    message,
    ...(hint !== undefined && { hint }),
    ...(payload !== undefined && { payload }),
    doc_url: docUrlOf(code),
  };
}

function linkResult(answer: LinkAnswer, client: AnswerForm): JsonObject {
  const { url, sessionId } = answer.link;
  const message = messageOf(answer);
  if (!client.opensUrls) {
    const { code } = answer.fault;
    const text = `${message} Give the user this link, then call the tool again: ${url}`;
    return errorResult({ code, message: text, connect_link: url }, text);
  }
  // The state says only what to wait for: the call is judged again, as if it were the first.
  return urlResult({ name: connectRequest, message, url, state: sessionId, id: sessionId }, client);
}

interface UrlQuestion {
  readonly name: string;
  readonly message: string;
  readonly url: string;
  readonly state: string;
  readonly id: string;
}

/** Asks a client to open a URL and to call again. */
function urlResult({ name, message, url, state, id }: UrlQuestion, { era, isAskedNow }: AnswerForm): JsonObject {
  const request = { mode: "url", message, url, ...(era === "legacy" && { elicitationId: id }) };
  if (!isAskedNow) {
    throw new RpcFailure(rpcCodes.urlElicitationRequired, message, { data: { elicitations: [request] } });
  }
  return {
    resultType: "input_required",
    inputRequests: { [name]: { method: "elicitation/create", params: request } },
    requestState: state,
  };
}

/** The call was not made: the client makes it again once a person has approved it. */
function approvalResult({ id, page, fault }: WaitingAnswer, client: AnswerForm): JsonObject {
  const message = `A person has to approve this call first (approval ${id}).`;
  const state = approvalState(id);
  if (page !== undefined && client.opensUrls) {
    return urlResult({ name: approvalRequest, message, url: page, state, id }, client);
  }
  if (client.era === "modern") return { resultType: "input_required", requestState: state };
  const where = page === undefined ? "" : ` It is at ${page}.`;
  const text = `${message}${where} Make the same call again once it is approved.`;
  return errorResult({ code: fault.code, message: text, approval: id }, text);
}

function messageOf({ fault, connection }: LinkAnswer): string {
  const account = `an account of ${connection.integration}`;
  const whose = connection.id === "" ? account : `${account} (${connection.id})`;
  return fault.code === "reauthorization_required"
    ? `The connection to ${whose} no longer works: connect it again.`
    : `Connect ${whose} to continue.`;
}
