import {
  TokenRevocation_Result as Result,
  type Revocation,
  Revocation_State as State,
  type TokenRevocation,
} from "../gen/latchkey/v1/connection_pb.ts";

const stateWords: ReadonlyMap<State, string> = new Map([
  [State.PENDING, "pending"],
  [State.DONE, "done"],
  [State.FAILED, "failed"],
]);

const resultWords: ReadonlyMap<Result, string> = new Map([
  [Result.REVOKED, "revoked"],
  [Result.NOT_SUPPORTED, "not_supported"],
  [Result.FAILED, "failed"],
  [Result.KEPT, "kept"],
]);

/** The word for the state of a revocation in JSON, and in text for people. */
export const stateOfRevocation = ({ state }: Pick<Revocation, "state">): string => stateWords.get(state) ?? "pending";

/** The word for what became of a token: in JSON, metrics, audit entries, and text for people. */
export const resultOfToken = ({ result }: Pick<TokenRevocation, "result">): string =>
  resultWords.get(result) ?? "pending";

/** What became of each token, by its name. */
export const tokenResults = ({ tokens }: Pick<Revocation, "tokens">): Record<string, string> =>
  Object.fromEntries(tokens.map((one) => [one.token, resultOfToken(one)]));
