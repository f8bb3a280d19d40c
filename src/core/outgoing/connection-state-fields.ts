import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";

type Stated = Pick<Connection, "state" | "errors">;

/** In the words of the JSON routes and the command line. */
const names: Readonly<Record<Connection_State, string | undefined>> = {
  [Connection_State.UNSPECIFIED]: undefined,
  [Connection_State.ACTIVE]: undefined,
  [Connection_State.EXPIRING]: "expiring",
  [Connection_State.REFRESH_FAILING]: "refresh_failing",
  [Connection_State.REAUTHORIZATION_REQUIRED]: "reauthorization_required",
};

const none: readonly string[] = [];

/**
 * Name, value, name, value: the state of a connection that is not active, and the log that says why. The provider's own
 * answer does not tell an expired grant from a request that it refuses.
 */
export function connectionStateFields({ state, errors }: Stated): readonly string[] {
  const name = names[state];
  if (name === undefined) return none;
  const logId = errors.at(-1)?.logId ?? "";
  const log = /^[\w-]{1,64}$/.test(logId) ? ["latchkey-log-id", logId] : none;
  return ["latchkey-connection-state", name, ...log];
}
