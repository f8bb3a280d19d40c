import { Fault } from "../../base/fault.ts";
import { type RepeatedMessage, repeatedMessage } from "../../core/mcp/held-message.ts";
import { memberOf } from "../../core/mcp/message-members.ts";
import { MessageScanner, type RpcMessage } from "../../core/mcp/message-scanner.ts";
import type { ProviderCall } from "../proxy/provider-call.ts";
import { asRpcFault, carriesMessage } from "./message.ts";

/** The message of an MCP client that a policy holds. */
export interface HeldMessage extends RepeatedMessage {
  /** The tool that it calls; empty: none. */
  readonly tool: string;
  /** Returns the answer for a client whose approval waits. */
  waiting(fault: Fault, approval: WaitingApproval): Fault;
  /** Returns any other fault as the client reads it. */
  refused(error: unknown): unknown;
}

interface WaitingApproval {
  readonly id: string;
  /** URL of its page in the dashboard; undefined: there is none. */
  readonly page: string | undefined;
}

/** Returns the message of a held call; undefined for any other request. Throws a Fault if it cannot be read. */
export function heldMessage(call: ProviderCall, content: Uint8Array | undefined): HeldMessage | undefined {
  if (content === undefined || !carriesMessage(call)) return undefined;
  const refused = (error: unknown) => asRpcFault(call, content, error);
  const scanner = new MessageScanner();
  try {
    scanner.push(content);
    if (!scanner.hasEnded) throw new Fault("invalid_message", "the body must be a whole JSON-RPC message");
    const repeated = repeatedMessage(content);
    const { message } = scanner;
    return {
      ...repeated,
      tool: message.method === "tools/call" ? (message.name ?? "") : "",
      refused,
      waiting: (fault, approval) =>
        answerFor(fault, { approval, message, content, requestState: repeated.stateFor(approval.id) }),
    };
  } catch (error) {
    throw refused(error);
  }
}

interface WaitingMessage {
  readonly approval: WaitingApproval;
  readonly message: RpcMessage;
  readonly content: Uint8Array;
  readonly requestState: string;
}

/** Requests that may be answered by `input_required`. */
const multiRound: ReadonlySet<string> = new Set(["tools/call", "prompts/get", "resources/read"]);
const firstWithRounds = "2026-07-28";
/** MCP 2025-11-25: the client shows a URL, and repeats the call. */
const urlElicitationRequired = -32_042;
/** JSON-RPC 2.0: an error that the server defines. */
const serverError = -32_000;

/** 202 would tell an MCP client that its message needs no answer: this one has status 200. */
function answerFor(fault: Fault, { approval, message, content, requestState }: WaitingMessage): Fault {
  const { id, method = "", version = "" } = message;
  if (id === "null") {
    const reason = "a notification cannot wait for an approval: limit the hold policy by mcp.method";
    return Fault.withoutStack("denied_by_policy", reason, { metadata: fault.metadata });
  }
  const { page } = approval;
  const text = `A person has to approve this request first (approval ${approval.id}).`;
  const question = page === undefined ? undefined : { mode: "url", message: text, url: page };
  const isModern = version >= firstWithRounds && multiRound.has(method);
  const asks = isModern && question !== undefined && opensUrls(content);
  const answer = isModern
    ? {
        result: {
          resultType: "input_required",
          ...(asks && { inputRequests: { approval: { method: "elicitation/create", params: question } } }),
          requestState,
        },
      }
    : { error: legacyError(fault, approval, question) };
  const rest = JSON.stringify(answer).slice(1);
  return Fault.withoutStack(fault.code, fault.message, {
    metadata: fault.metadata,
    ...(fault.retryAfterSeconds !== undefined && { retryAfterSeconds: fault.retryAfterSeconds }),
    answer: { status: 200, body: `{"jsonrpc":"2.0","id":${id},${rest}` },
  });
}

function legacyError(fault: Fault, { id }: WaitingApproval, question: object | undefined) {
  const data = { code: fault.code, approval: id };
  if (question === undefined) return { code: serverError, message: fault.message, data };
  const elicitations = [{ ...question, elicitationId: id }];
  return { code: urlElicitationRequired, message: fault.message, data: { ...data, elicitations } };
}

const capabilities = "io.modelcontextprotocol/clientCapabilities";

/** Returns whether the client says that it shows URLs to its user. */
function opensUrls(content: Uint8Array): boolean {
  const valueAt = (object: string, name: string) => memberOf(object, name) ?? "";
  const text = Buffer.from(content).toString("latin1");
  const path = ["params", "_meta", capabilities, "elicitation", "url"];
  return path.reduce(valueAt, text) !== "";
}
