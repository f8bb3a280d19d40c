import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../base/fault.ts";
import type { EdgeHello, FollowRequest } from "../../gen/latchkey/v1/edge_pb.ts";

const helloWithinMs = 10_000;

/** All that an edge says before it is welcome: who it is, and what it still has. */
export interface EdgeGreeting {
  readonly hello: EdgeHello;
  readonly held: readonly HeldByEdge[];
}

/** Versions of what an edge has, in one message. */
export type HeldByEdge = Pick<EdgeHello, "connections" | "keys" | "integrations" | "providers">;

export async function readGreeting(messages: AsyncIterator<FollowRequest>): Promise<EdgeGreeting> {
  const late = new AbortController();
  const timeout = sleep(helloWithinMs, undefined, { signal: late.signal }).catch(() => undefined);
  try {
    const hello = await greetingPart(messages, timeout);
    if (hello?.case !== "hello") throw new Fault("invalid_body", "`hello` must be the first message");
    const held: HeldByEdge[] = [hello.value];
    while (held.length <= hello.value.heldMessages) {
      const more = await greetingPart(messages, timeout);
      if (more?.case !== "held") throw new Fault("invalid_body", "`held` must follow as often as `hello` says");
      held.push(more.value);
    }
    return { hello: hello.value, held };
  } finally {
    late.abort();
  }
}

/** Returns undefined if the edge has ended the call. */
async function greetingPart(messages: AsyncIterator<FollowRequest>, timeout: Promise<void>) {
  const next = await Promise.race([messages.next(), timeout]);
  if (next === undefined) throw new Fault("request_timeout", "`hello` and `held` were not sent in time");
  return next.done === true ? undefined : next.value.message;
}
