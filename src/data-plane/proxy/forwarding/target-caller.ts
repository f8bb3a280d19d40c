import { Fault } from "../../../base/fault.ts";
import { type Caller, requireScope } from "../../../broker/setup/caller.ts";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { CallerAccess } from "../../server/authenticate-request.ts";
import type { ForwardTarget } from "./forward-target.ts";

/**
 * Returns the caller of a target, by its key or else by its connection, and checks each time that it may still call.
 * Throws, or rejects with, the fault of a caller without access.
 */
export function callerOfTarget(access: CallerAccess, target: ForwardTarget): Caller | Promise<Caller> {
  const { caller: last } = target;
  if (last !== undefined && access.isCurrent(last)) return last;
  const admit = (caller: Caller): Caller => {
    requireScope(caller, Scope.PROXY);
    target.admit(caller);
    return caller;
  };
  const found = target.peer === undefined ? access.authenticate(target.key) : access.callerOfPeer(target.peer);
  if (found === undefined) {
    throw new Fault("proxy_key_required", "send a key with the proxy's address: http://latchkey:<key>@host:port");
  }
  return found instanceof Promise ? found.then(admit) : admit(found);
}
