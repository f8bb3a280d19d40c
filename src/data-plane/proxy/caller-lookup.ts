import type { Socket } from "node:net";
import { type Caller, requireScope } from "../../broker/setup/caller.ts";
import { callerKey } from "../../core/outgoing/caller-key.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { FrontHead } from "../../relay/client/incoming.ts";
import { authenticateRequest, type CallerAccess, hidesPeer } from "../server/authenticate-request.ts";

/** A caller that may use the proxy, and the key that it sent. */
export interface AuthenticatedCaller {
  readonly authorization: string | undefined;
  /** Empty: its connection proves the caller. */
  readonly key: string;
  readonly caller: Caller;
}

/** Finds the caller of a request; a promise if the key is not cached. Throws, or rejects, for a key without access. */
export type CallerLookup = (request: FrontHead) => AuthenticatedCaller | Promise<AuthenticatedCaller>;

/** A key that repeats on its socket is looked up once; its validity is checked each time. */
export function createCallerLookup(access: CallerAccess): CallerLookup {
  const lastCallers = new WeakMap<Socket, AuthenticatedCaller>();
  return (request) => {
    const { headers, socket } = request;
    const authorization = headerOf(request, "authorization");
    const last = lastCallers.get(socket);
    const isAlone =
      headers["latchkey-key"] === undefined &&
      headers["proxy-authorization"] === undefined &&
      (authorization !== undefined || !hidesPeer(request));
    if (isAlone && last !== undefined && last.authorization === authorization && access.isCurrent(last.caller)) {
      return last;
    }
    const secret = callerKey((name) => headerOf(request, name));
    const admit = (caller: Caller): AuthenticatedCaller => {
      requireScope(caller, Scope.PROXY);
      const authenticated = { authorization, key: secret ?? "", caller };
      if (isAlone) lastCallers.set(socket, authenticated);
      return authenticated;
    };
    const caller = authenticateRequest(access, { secret, head: request });
    return caller instanceof Promise ? caller.then(admit) : admit(caller);
  };
}

/** Returns the first value of a header. */
export function headerOf({ headers }: FrontHead, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : value?.[0];
}
