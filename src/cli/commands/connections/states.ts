import { InvalidArgumentError } from "commander";
import { type Connection, Connection_State, Connection_StateSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Tone } from "../../terminal/paint.ts";

/** Returns `refresh_failing` for `STATE_REFRESH_FAILING`. */
export const stateName = (state: Connection_State): string =>
  Connection_StateSchema.value[state]?.name.replace(/^STATE_/, "").toLowerCase() ?? `state ${state}`;

export function stateTone({ state }: Pick<Connection, "state">): Tone {
  if (state === Connection_State.ACTIVE) return "good";
  return state === Connection_State.REAUTHORIZATION_REQUIRED ? "bad" : "warning";
}

const states: ReadonlyMap<string, Connection_State> = new Map(
  Connection_StateSchema.values.flatMap(({ number }) =>
    number === Connection_State.UNSPECIFIED
      ? []
      : [[stateName(number as Connection_State), number as Connection_State]],
  ),
);

export const stateNames: readonly string[] = [...states.keys()];

/** Collects states by their names. */
export function statesNamed(text: string, before: readonly Connection_State[] = []): readonly Connection_State[] {
  const state = states.get(text);
  if (state === undefined) throw new InvalidArgumentError(`It must be one of ${stateNames.join(", ")}.`);
  return [...before, state];
}

/** Adds the reason, if there is one: `reauthorization_required: revoked`. */
export const stateText = ({ state, stateReason }: Pick<Connection, "state" | "stateReason">): string =>
  stateReason === "" ? stateName(state) : `${stateName(state)}: ${stateReason}`;
