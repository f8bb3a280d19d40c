import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { TokenFailure, type TokenFailureKind } from "../../auth/oauth2/tokens.ts";
import type { SmallAnswer } from "../../base/small-requests.ts";
import { checkConnectionConfig, checkMetadata } from "../../core/connection-rules.ts";
import type { ReadTokens, TokenReading } from "./token-answer.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { refused, unusable } from "./token-failure.ts";

interface TokenIntake {
  readonly parties: TokenParties;
  readonly answer: SmallAnswer;
  /** All sent values that must not be repeated in errors. */
  readonly secrets: readonly string[];
  readonly kindOf: (status: number, code: string | undefined) => TokenFailureKind;
  readonly nowMs: number;
}

const what = "the token endpoint";

/** Returns the tokens of a response in a form that can be stored. Throws `TokenFailure` for any other response. */
export function takenFrom(reading: TokenReading, { parties, answer, secrets, kindOf, nowMs }: TokenIntake): ReadTokens {
  switch (reading.is) {
    case "refusal": {
      const { code } = reading;
      throw refused({ what, answer, kind: kindOf(answer.status, code), code, secrets, nowMs });
    }
    case "garbled": {
      const failure = { kind: "uncertain", code: reading.code, retryAfterMs: undefined } as const;
      throw new TokenFailure(failure, `the response of ${what} cannot be read`);
    }
    case "unusable":
      throw unusable(reading.code, `the response of ${what} cannot be used: ${reading.code}`);
    case "tokens":
      return storable(reading.tokens, parties);
  }
}

function storable(tokens: ReadTokens, { provider }: TokenParties): ReadTokens {
  const connectionConfig = textual(tokens.connectionConfig);
  const described = provider.connectionFields.filter(({ name }) => Object.hasOwn(connectionConfig, name));
  // The value may be a forged host.
  if (checkConnectionConfig(connectionConfig, described).length > 0) {
    throw unusable(
      "connection_config",
      `${what} returned connection values that the provider's description does not allow`,
    );
  }
  return {
    ...tokens,
    connectionConfig,
    raw: kept(tokens.raw) ?? {},
    // Metadata only helps to find the connection again, so invalid metadata must not lose the tokens.
    metadata: kept(tokens.metadata) ?? {},
  };
}

/** Converts numbers to text: in the configuration they are identifiers. */
const textual = (config: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(config).map(([name, value]): [string, JsonValue] => [
      name,
      typeof value === "number" ? String(value) : value,
    ]),
  );

/**
 * Returns a storable copy. Objects that are too deep, too large or not text could be stored but never read again.
 * Numbers are limited to those of JSON.
 */
function kept(object: JsonObject): JsonObject | undefined {
  return checkMetadata(object).length === 0 ? JSON.parse(JSON.stringify(object)) : undefined;
}
