import { type Connection, Connection_State } from "../../gen/latchkey/v1/connection_pb.ts";

type Stated = Pick<Connection, "state" | "errors">;

/** State names as the JSON routes and the command line show them. */
const names: Readonly<Record<Connection_State, string | undefined>> = {
  [Connection_State.UNSPECIFIED]: undefined,
  [Connection_State.ACTIVE]: undefined,
  [Connection_State.EXPIRING]: "expiring",
  [Connection_State.REFRESH_FAILING]: "refresh_failing",
  [Connection_State.REAUTHORIZATION_REQUIRED]: "reauthorization_required",
};

const none: readonly string[] = [];

/**
 * Returns name, value, name, value: the state of a connection that is not active, and the ID of the log that explains
 * it. The provider's own response does not distinguish an expired grant from a refused request.
 */
export function connectionStateFields({ state, errors }: Stated): readonly string[] {
  const name = names[state];
  if (name === undefined) return none;
  const logId = errors.at(-1)?.logId ?? "";
  const log = /^[\w-]{1,64}$/.test(logId) ? ["latchkey-log-id", logId] : none;
  return ["latchkey-connection-state", name, ...log];
}
