import { create } from "@bufbuild/protobuf";
import type { RevocationTask } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import {
  TokenRevocation_Result as Result,
  type TokenRevocation,
  TokenRevocationSchema,
} from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import type { RevocationFailure } from "./attempt-failure.ts";

/** One attempt to revoke the tokens that have no result yet. */
export interface RevocationAttempt {
  readonly task: RevocationTask;
  readonly provider: Provider;
  readonly tokens: readonly TokenRevocation[];
  readonly signal: AbortSignal;
  /** Stores credentials that a refresh replaced, before they are used. */
  readonly onRefreshed: (credentials: Credentials) => Promise<void>;
}

export interface RevocationOutcome {
  /** All tokens, with the results that are known now. */
  readonly tokens: readonly TokenRevocation[];
  /** Undefined if every token has a result. */
  readonly failure: RevocationFailure | undefined;
}

/** Asks the provider to end the tokens of a deleted connection. Stores nothing. */
export type RevokeTokens = (live: LiveConnection, attempt: RevocationAttempt) => Promise<RevocationOutcome>;

export const resultOf = ({ token }: TokenRevocation, result: Result, cause = ""): TokenRevocation =>
  create(TokenRevocationSchema, { token, result, cause });

/** Gives each token without a result this one. */
export const allOf = (
  { tokens }: Pick<RevocationAttempt, "tokens">,
  result: Result,
  cause = "",
): RevocationOutcome => ({
  tokens: tokens.map((one) => (one.result === Result.UNSPECIFIED ? resultOf(one, result, cause) : one)),
  failure: undefined,
});
