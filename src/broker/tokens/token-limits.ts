import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { TokenFailure, type TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import type { SmallAnswer } from "../../base/small-requests.ts";
import { checkConnectionConfig, checkMetadata } from "../../core/connection-rules.ts";
import type { ReadTokens, TokenReading } from "./token-answer.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { refused, unusable } from "./token-failure.ts";

interface TokenIntake {
  readonly asking: TokenParties;
  readonly answer: SmallAnswer;
  /** All that was sent and is not to be repeated. */
  readonly secrets: readonly string[];
  readonly kindOf: (status: number, code: string | undefined) => TokenFailureKind;
  readonly nowMs: number;
}

const what = "the token endpoint";

/** The tokens of an answer, in a form that can be stored. Throws `TokenFailure` for all else that an answer can be. */
export function takenFrom(reading: TokenReading, { asking, answer, secrets, kindOf, nowMs }: TokenIntake): ReadTokens {
  switch (reading.is) {
    case "refusal": {
      const { code } = reading;
      throw refused({ what, answer, kind: kindOf(answer.status, code), code, secrets, nowMs });
    }
    case "garbled": {
      const failure = { kind: "uncertain", code: reading.code, retryAfterMs: undefined } as const;
      throw new TokenFailure(failure, `${what}'s answer cannot be read`);
    }
    case "unusable":
      throw unusable(reading.code, `${what}'s answer cannot be used: ${reading.code}`);
    case "tokens":
      return storable(reading.tokens, asking);
  }
}

function storable(tokens: ReadTokens, { provider }: TokenParties): ReadTokens {
  const connectionConfig = textual(tokens.connectionConfig);
  const described = provider.connectionFields.filter(({ name }) => Object.hasOwn(connectionConfig, name));
  // It may be a host that somebody made up.
  if (checkConnectionConfig(connectionConfig, described).length > 0) {
    throw unusable("connection_config", `${what} names what the provider's description does not allow`);
  }
  return {
    ...tokens,
    connectionConfig,
    raw: kept(tokens.raw) ?? {},
    // What is in it is for finding the connection again; tokens are not lost for its sake.
    metadata: kept(tokens.metadata) ?? {},
  };
}

/** Numbers there are identifiers. */
const textual = (config: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(config).map(([name, value]): [string, JsonValue] => [
      name,
      typeof value === "number" ? String(value) : value,
    ]),
  );

/** What is too deep or too large, or is no text, could be stored and never be read again. Of numbers, what JSON has. */
function kept(object: JsonObject): JsonObject | undefined {
  return checkMetadata(object).length === 0 ? JSON.parse(JSON.stringify(object)) : undefined;
}
