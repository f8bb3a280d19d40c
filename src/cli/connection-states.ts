import { type Connection, Connection_State, Connection_StateSchema } from "../gen/latchkey/v1/connection_pb.ts";
import type { Tone } from "./paint.ts";

/** `STATE_REFRESH_FAILING` is `refresh_failing`. */
export const stateName = (state: Connection_State): string =>
  Connection_StateSchema.value[state]?.name.replace(/^STATE_/, "").toLowerCase() ?? `state ${state}`;

export function stateTone({ state }: Connection): Tone {
  if (state === Connection_State.ACTIVE) return "good";
  return state === Connection_State.REAUTHORIZATION_REQUIRED ? "bad" : "warning";
}
