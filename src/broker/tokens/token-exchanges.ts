import { kindOf } from "../../auth/oauth2/token-failures.ts";
import { TokenFailure, type Tokens } from "../../auth/oauth2/tokens.ts";
import { fill, fillText, type Values } from "../../auth/template.ts";
import type { SendSmallRequest, SmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { TokenExchange } from "../../gen/latchkey/v1/provider_pb.ts";
import { filledFor } from "./authorization-server.ts";
import { certificateOf } from "./client-certificates.ts";
import { integrationTexts } from "./integration-texts.ts";
import { type ReadTokens, readTokenAnswer } from "./token-answer.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { unanswered } from "./token-failure.ts";
import { takenFrom } from "./token-limits.ts";
import { withParameters } from "./written-parameters.ts";

interface ExchangeTools {
  readonly request: TokenParties;
  readonly send: SendSmallRequest;
  readonly world: World;
}

/**
 * Exchanges a token for another, step by step, as the provider's description defines. The values of each response
 * replace the earlier ones. A failed step has consumed what came before it.
 */
export async function furtherExchanges<T extends ReadTokens>(
  first: T,
  exchanges: readonly TokenExchange[],
  tools: ExchangeTools,
): Promise<T> {
  let tokens = first;
  for (const [i, exchange] of exchanges.entries()) {
    try {
      tokens = merged(tokens, await exchanged(tokens, exchange, tools));
    } catch (thrown) {
      throw consumed(thrown, i + 1);
    }
  }
  return tokens;
}

async function exchanged(
  tokens: Tokens | ReadTokens,
  exchange: TokenExchange,
  tools: ExchangeTools,
): Promise<ReadTokens> {
  const { request: given, send, world } = tools;
  const request = { ...given, connectionConfig: { ...given.connectionConfig, ...tokens.connectionConfig } };
  const { provider, integration, connectionConfig } = request;
  const values: Values = {
    token: tokens.accessToken,
    integration: integrationTexts(request),
    connectionConfig: { ...integration.connectionDefaults, ...connectionConfig },
  };
  const sentAtMs = world.now();
  const described = describedExchange(exchange, filledFor(request, exchange.url), values);
  const answer = await send({ ...described, clientCertificate: certificateOf(request) }, { signal: request.signal });
  const reading = readTokenAnswer(
    { status: answer.status, contentType: answer.header("content-type"), body: answer.body },
    { at: exchange.tokenAnswer, defaultLifetime: undefined, sentAtMs, isBound: false, known: tokens.accessToken },
  );
  const secrets = [tokens.accessToken, request.secrets?.clientSecret ?? "", request.client?.secret ?? ""];
  const { auth } = provider;
  const rules = auth.case === "oauth2" ? auth.value : { deadGrantErrors: [], deadClientErrors: [] };
  return takenFrom(reading, {
    parties: request,
    answer,
    secrets,
    kindOf: (status, code) => kindOf({ status, code, grant: "exchange", rules }),
    nowMs: world.now(),
  });
}

function describedExchange(exchange: TokenExchange, url: string, values: Values): SmallRequest {
  const { method, format, params, headers } = exchange;
  const own = Object.entries(headers).map(([name, text]) => [name.toLowerCase(), fillText(text, values)] as const);
  const common = { accept: "application/json", ...Object.fromEntries(own) };
  const texts = Object.entries(params).map(([name, text]) => [name, fillText(text, values)] as const);
  if (method === "GET") {
    return { url: withParameters(url, texts), method, headers: common, mayRepeat: false };
  }
  const isJson = format === "json";
  const body = isJson
    ? JSON.stringify(Object.fromEntries(Object.entries(params).map(([name, text]) => [name, fill(text, values)])))
    : String(new URLSearchParams(texts.map(([name, text]): [string, string] => [name, text])));
  const type = isJson ? "application/json" : "application/x-www-form-urlencoded";
  return { url, method: "POST", headers: { "content-type": type, ...common }, body };
}

/** Returns the tokens with the values of a further response. A response without a token keeps the former and its life. */
function merged<T extends ReadTokens>(before: T, after: ReadTokens): T {
  const isNew = after.accessToken !== before.accessToken;
  return {
    ...before,
    accessToken: after.accessToken,
    refreshToken: after.refreshToken ?? before.refreshToken,
    expiresAtMs: isNew ? after.expiresAtMs : (after.expiresAtMs ?? before.expiresAtMs),
    refreshExpiresAtMs: after.refreshExpiresAtMs ?? before.refreshExpiresAtMs,
    scopes: after.scopes ?? before.scopes,
    raw: { ...before.raw, ...after.raw },
    connectionConfig: { ...before.connectionConfig, ...after.connectionConfig },
    metadata: { ...before.metadata, ...after.metadata },
  };
}

/** A code or a refresh token is used up by now, and cannot be sent again. */
function consumed(thrown: unknown, step: number): unknown {
  const error = unanswered(thrown, "the provider");
  if (!(error instanceof TokenFailure)) return error;
  const { kind, code, retryAfterMs } = error;
  const now = kind === "passing" ? "uncertain" : kind;
  return new TokenFailure({ kind: now, code, retryAfterMs }, `step ${step} after the exchange: ${error.message}`, {
    cause: error,
  });
}
