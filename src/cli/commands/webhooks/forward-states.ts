import { InvalidArgumentError } from "commander";
import { type Forward, Forward_StateSchema, Forward_State as State } from "../../../gen/latchkey/v1/webhook_pb.ts";
import type { Tone } from "../../terminal/paint.ts";

/** Returns `no_destination` for `STATE_NO_DESTINATION`. */
const nameOf = (state: State): string =>
  Forward_StateSchema.value[state]?.name.replace(/^STATE_/, "").toLowerCase() ?? `state ${state}`;

const states: ReadonlyMap<string, State> = new Map(
  Forward_StateSchema.values.flatMap(({ number }) =>
    number === State.UNSPECIFIED ? [] : [[nameOf(number as State), number as State]],
  ),
);

export const forwardStates: readonly string[] = [...states.keys()];

/** Collects states by their names. */
export function forwardStatesNamed(text: string, before: readonly State[] = []): readonly State[] {
  const state = states.get(text);
  if (state === undefined) throw new InvalidArgumentError(`It must be one of ${forwardStates.join(", ")}.`);
  return [...before, state];
}

/** Adds the reason, if there is one: `dead: status_500`. */
export const forwardStateText = ({ state, stateReason }: Forward): string =>
  stateReason === "" || stateReason === impliedReason ? nameOf(state) : `${nameOf(state)}: ${stateReason}`;

/** A reason that only repeats the state. */
const impliedReason = "no_forward_url";

export function forwardStateTone({ state }: Forward): Tone {
  if (state === State.DELIVERED) return "good";
  if (state === State.DEAD) return "bad";
  return state === State.PENDING ? "plain" : "warning";
}
