import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { isObject } from "../../dialect/json-fields.ts";

/** What a call has learned so far. The client keeps it, sealed, and sends it with the next attempt. */
export interface CallState {
  /** The state of a link or an approval that the call waits for as well; empty: none. */
  readonly awaited: string;
  /** ID of the connection that the questions are about; empty: none was chosen yet. */
  readonly connection: string;
  /** How often the client was asked. */
  readonly rounds: number;
  /** Digests of the questions that the client was asked last, by their names. */
  readonly asked: Readonly<Record<string, string>>;
  /** Answers by the digests of their questions, as the client gave them. */
  readonly answers: JsonObject;
}

/** The beginning of a call. `connect` and `approval` are answers too, to questions of our own. */
export const firstState = (awaited: string): CallState => ({
  awaited,
  connection: "",
  rounds: 0,
  asked: {},
  answers: {},
});

/** Adds the answers to the questions that the client was asked. Others are ignored. */
export function withResponses(state: CallState, responses: JsonValue | undefined): CallState {
  if (!isObject(responses)) return state;
  const added = Object.entries(state.asked).flatMap(([name, digest]) => {
    const answer = Object.hasOwn(responses, name) ? responses[name] : undefined;
    return answer === undefined ? [] : [[digest, answer] as const];
  });
  return { ...state, answers: { ...state.answers, ...Object.fromEntries(added) } };
}

/** The text of a state, with the time until which it counts. */
export const writeCallState = (state: CallState, untilMs: number): string => JSON.stringify({ ...state, untilMs });

/** Reads what `writeCallState` has written; undefined: its time is over. */
export function readCallState(text: string, nowMs: number): CallState | undefined {
  const { untilMs, ...state } = JSON.parse(text) as CallState & { readonly untilMs: number };
  return nowMs < untilMs ? state : undefined;
}
