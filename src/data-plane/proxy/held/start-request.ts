import { refusedMessage } from "../../mcp/message.ts";
import { readBody } from "../../server/body.ts";
import { isHeld } from "../admission.ts";
import { maxHeldBytes, needsContent } from "../held-body.ts";
import { answerLastHop, type HttpCall } from "../http-proxy-call.ts";
import { type PreparedRequest, ProxiedRequest } from "../proxied-request.ts";
import type { ProxyServices } from "../proxy-services.ts";
import { createHeldCalls, type HeldCalls } from "./held-calls.ts";

/** Sends a prepared request of the general path: at once, or once its body was read and a person has approved it. */
export type StartRequest = (received: HttpCall, begun: Omit<PreparedRequest, "content">) => void;

interface RequestStarts {
  readonly held: HeldCalls;
  readonly start: StartRequest;
}

export function createRequestStarts(shared: ProxyServices): RequestStarts {
  const { calls, streams, admission, world, fail } = shared;
  const held = createHeldCalls({ approvals: admission.approvals, dashboard: admission.dashboard, world });
  const start: StartRequest = (received, begun) => {
    const { request, response } = received;
    const { call, ready, trace } = begun;
    trace?.noteConnection(ready);
    // A caller that left during the lookup emits no further `close`.
    if (response.closed) return;
    if (ready.isLastHop) {
      answerLastHop(response, ready);
      return;
    }
    streams.follow(call);
    const hasContent = needsContent(request, ready);
    if (!hasContent && !isHeld(ready.verdict)) {
      new ProxiedRequest(shared, { ...begun, content: undefined }).attempt();
      return;
    }
    call.proceed();
    let read: Uint8Array | undefined;
    readBody(request, maxHeldBytes)
      .then(async (content) => {
        read = content;
        await calls.requireAllowedBody(ready, content);
        const again = () => calls.again(received, ready, content);
        const given = hasContent ? content : undefined;
        const sent = await held.admit({ context: received, ready, content: given, again, spend: calls.spend });
        // The caller may have left while its budget was read, or an approval was awaited.
        if (response.closed) return;
        new ProxiedRequest(shared, { ...begun, ...sent }).attempt();
      })
      .catch((error: unknown) => {
        if (read !== undefined) call.message = refusedMessage(ready, read);
        fail(call, error);
      });
  };
  return { held, start };
}
