import type { JsonObject } from "@bufbuild/protobuf";
import { namedToken } from "../../auth/oauth2/further-tokens.ts";
import type { NamedTokens } from "../../auth/oauth2/tokens.ts";
import type { Credentials, NamedToken } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { FurtherToken, OAuth2Rules, Provider, TokenAnswer } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import { readTokenAnswer, type TokenHttpAnswer, type TokenReading, type TokenReadingOptions } from "./token-answer.ts";

type AnswerPaths = Omit<TokenAnswer, "$typeName">;

/** The fields beside an access token. A path that a description leaves out names none of another token. */
const noField = "latchkey\\.none";

/** Returns where the fields of a further token are: those without a path stand beside its access token. */
function pathsOf({ tokenAnswer }: FurtherToken): AnswerPaths | undefined {
  if (tokenAnswer === undefined || tokenAnswer.accessToken === "") return undefined;
  const { accessToken } = tokenAnswer;
  const beside = accessToken.slice(0, accessToken.search(/(?<!\\)\.(?:[^.\\]|\\.)*$/) + 1);
  const path = (given: string, usual: string) => given || (beside === "" ? noField : `${beside}${usual}`);
  return {
    ...tokenAnswer,
    refreshToken: path(tokenAnswer.refreshToken, "refresh_token"),
    expiresIn: path(tokenAnswer.expiresIn, "expires_in"),
    refreshTokenExpiresIn: path(tokenAnswer.refreshTokenExpiresIn, "refresh_token_expires_in"),
    scope: path(tokenAnswer.scope, "scope"),
    connectionConfig: {},
    metadata: {},
  };
}

/** Returns the further tokens in an answer, by name. A token that is missing was not granted. */
export function furtherTokensIn(
  answer: JsonObject,
  { furtherTokens }: Pick<OAuth2Rules, "furtherTokens">,
  sentAtMs: number,
): Readonly<Record<string, NamedTokens>> {
  const found = Object.entries(furtherTokens).flatMap(([name, rules]): [string, NamedTokens][] => {
    const at = pathsOf(rules);
    if (at === undefined || valueAt(at.accessToken, answer) === undefined) return [];
    const body = Buffer.from(JSON.stringify(answer));
    const reading = readTokenAnswer(
      { status: 200, contentType: "application/json", body },
      { at, defaultLifetime: undefined, sentAtMs, isBound: false },
    );
    if (reading.is !== "tokens") return [];
    const { accessToken, refreshToken, expiresAtMs, scopes } = reading.tokens;
    return [[name, { accessToken, refreshToken, expiresAtMs, scopes }]];
  });
  return Object.fromEntries(found);
}

/** Returns imported credentials with the further tokens that their `raw` shows, if they name none themselves. */
export function withShownTokens(
  credentials: Credentials,
  { auth }: Pick<Provider, "auth">,
  nowMs: number,
): Credentials {
  const { kind } = credentials;
  if (kind.case !== "oauth2" || auth.case !== "oauth2" || kind.value.raw === undefined) return credentials;
  if (Object.keys(kind.value.furtherTokens).length > 0) return credentials;
  const shown = Object.entries(furtherTokensIn(kind.value.raw, auth.value, nowMs));
  if (shown.length === 0) return credentials;
  const furtherTokens = Object.fromEntries(
    shown.map(([name, { expiresAtMs: _, ...token }]) => [name, asImported(token)]),
  );
  return { ...credentials, kind: { case: "oauth2", value: { ...kind.value, furtherTokens } } };
}

/** The time from which a lifetime in an imported answer counts is not known. */
const asImported = (token: Omit<NamedTokens, "expiresAtMs">): NamedToken =>
  namedToken({ ...token, expiresAtMs: undefined });

/** Reads the answer to the refresh of a further token: at its own place, or else where the main token usually is. */
export function readFurtherAnswer(
  answered: TokenHttpAnswer,
  options: TokenReadingOptions,
  further: FurtherToken | undefined,
): TokenReading {
  const at = further && pathsOf(further);
  const own = at && readTokenAnswer(answered, { ...options, at });
  return own === undefined || (own.is === "unusable" && own.code === "no_token")
    ? readTokenAnswer(answered, options)
    : own;
}
