import { Fault } from "../../base/fault.ts";
import type { Access } from "../../broker/setup/access.ts";
import type { Caller } from "../../broker/setup/caller.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";

/** What listeners need of keys, sessions and identities. */
export type CallerAccess = Pick<Access, "authenticate" | "callerOfPeer" | "isCurrent" | "currentCaller">;

interface RequestProof {
  /** Key, access session or token that the request has sent; undefined: none. */
  readonly secret: string | undefined;
  readonly head: Pick<FrontHead, "headers" | "socket">;
}

/**
 * Returns the caller of a request. Every listener finds its callers here: `/proxy` on both paths, JSON routes, and the
 * forward proxy. What a request sends counts before what its connection proves. Throws, or rejects with, the fault that
 * the listener answers with.
 */
export function authenticateRequest(
  access: Pick<CallerAccess, "authenticate" | "callerOfPeer">,
  { secret, head }: RequestProof,
): Caller | Promise<Caller> {
  if (secret !== undefined) return access.authenticate(secret);
  const caller = hidesPeer(head) ? undefined : access.callerOfPeer(head.socket);
  if (caller === undefined) throw new Fault("missing_auth_header", "send a key: Authorization: Bearer <key>");
  return caller;
}

/** Set by an edge on what it relays: the connection proves the edge, and not its caller. */
export const relayedField = "latchkey-relayed";

/** Whether the connection of a request says nothing of who sends it. */
export const hidesPeer = (head: Pick<FrontHead, "headers">): boolean =>
  isFromBrowser(head) || head.headers[relayedField] !== undefined;

/** A page could make the browser of an identity send requests: nothing that a page does not know would protect them. */
export const isFromBrowser = ({ headers }: Pick<FrontHead, "headers">): boolean =>
  headers.origin !== undefined || headers["sec-fetch-site"] !== undefined;
