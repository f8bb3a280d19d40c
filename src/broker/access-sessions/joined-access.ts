import { sessionTokenPrefix } from "../../base/ids.ts";
import type { Access } from "../setup/access.ts";
import type { Caller, CallerAccessSession } from "../setup/caller.ts";
import type { SessionCallers } from "./session-callers.ts";

/** Returns access by keys, and by tokens of access sessions wherever a key may be sent. */
export const joinAccess = (
  keys: Access,
  sessions: Pick<SessionCallers, "authenticate" | "isCurrent" | "currentCaller">,
): Access => ({
  ...keys,
  authenticate: (secret) =>
    secret.startsWith(sessionTokenPrefix) ? sessions.authenticate(secret) : keys.authenticate(secret),
  isCurrent: (caller) => (isOfSession(caller) ? sessions.isCurrent(caller) : keys.isCurrent(caller)),
  currentCaller: (caller) => (isOfSession(caller) ? sessions.currentCaller(caller) : keys.currentCaller(caller)),
});

const isOfSession = (caller: Caller): caller is Caller & { readonly accessSession: CallerAccessSession } =>
  caller.accessSession !== undefined;
