import { Fault } from "../../base/fault.ts";
import type { RpcMessage } from "../../core/mcp/message-scanner.ts";
import type { ResponseReceiver } from "../../relay/response-receiver.ts";
import type { MessageOutcome } from "../mcp/message.ts";
import { ToolFilter } from "../mcp/tool-filter.ts";
import type { Admission } from "./admission.ts";
import type { ProviderCall } from "./provider-call.ts";
import type { ProxyCall } from "./proxy-call.ts";
import { guardReflection, isReflectionGuarded } from "./reflection.ts";

/** A request whose message and answer are checked on their way. */
export interface CheckedRequest extends MessageOutcome {
  readonly ready: ProviderCall;
  /** The message to an MCP server, once it was read. */
  readonly message: RpcMessage | undefined;
  /** Ends the exchange. */
  abort(): void;
}

interface AnswerChecks {
  readonly request: CheckedRequest;
  readonly call: Pick<ProxyCall, "isGone">;
  readonly admission: Pick<Admission, "toolCheck">;
}

interface AnswerReceiver {
  readonly receiver: ResponseReceiver;
  /** The caller may not call all tools: the list of tools must come uncompressed. */
  readonly hidesTools: boolean;
}

/** Returns a receiver that hides credentials, and tools that the caller may not call. Most answers need no check. */
export function checkedAnswer(to: ResponseReceiver, { request, call, admission }: AnswerChecks): AnswerReceiver {
  const { integration, provider } = request.ready.live;
  const mayCall = provider.mcp === undefined ? undefined : admission.toolCheck(request.ready);
  const shown = mayCall === undefined ? to : new ToolFilter(to, { mayCall, request });
  const receiver = isReflectionGuarded(integration)
    ? guardReflection(shown, {
        integration,
        sent: () => request.ready,
        refuse: (message) => request.refuse(new Fault("credential_echo", message)),
        isGone: () => call.isGone,
      })
    : shown;
  return { receiver, hidesTools: mayCall !== undefined };
}
