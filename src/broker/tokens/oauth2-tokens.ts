import { DPoP, type DPoPHandle, genericTokenEndpointRequest, modifyAssertion, None } from "oauth4webapi";
import { newDpopKey, readDpopKey } from "../../auth/oauth2/dpop-key.ts";
import { kindOf } from "../../auth/oauth2/token-failures.ts";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import type { SendSmallRequest, SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { filledParams } from "./filled-params.ts";
import { furtherTokensIn, readFurtherAnswer } from "./further-tokens.ts";
import { isAuthorization } from "./id-token-check.ts";
import type { IdTokens } from "./id-tokens.ts";
import type { Parties, Party } from "./oauth2-client.ts";
import { grantForm, type OAuth2Grant } from "./oauth2-grants.ts";
import { readTokenAnswer, type TokenReading } from "./token-answer.ts";
import type { TokenParties, TokenRequest } from "./token-endpoint.ts";
import { furtherExchanges } from "./token-exchanges.ts";
import { misconfigured } from "./token-failure.ts";
import { takenFrom } from "./token-limits.ts";
import { tokenForm } from "./written-parameters.ts";

/** Deadline for all requests of one grant together. */
const deadlineMs = 60_000;

interface OAuth2Asking {
  readonly parties: Parties;
  readonly idTokens: IdTokens;
  readonly send: SendSmallRequest;
  readonly world: World;
}

interface AnsweredGrant {
  readonly answer: SmallAnswer;
  readonly reading: TokenReading;
  readonly sentAtMs: number;
}

/** Requests tokens with a grant from an RFC, at an endpoint whose response format may differ from the RFC. */
export async function askOAuth2(
  request: TokenRequest & { readonly grant: OAuth2Grant },
  { parties, idTokens, send, world }: OAuth2Asking,
): Promise<Tokens> {
  const rules = oauth2RulesOf(request);
  const { grant, further } = request;
  const scopes = grant.type === "client_credentials" ? scopesFor(request, rules, grant.scopes) : [];
  const form = grantForm(grant, withFilledParams(rules, request), scopes);
  const party = await parties.partyOf(request, rules, form.isRenewal ? "renewal" : "token");
  const dpopKey = rules.dpop ? (request.dpopKey ?? newDpopKey()) : undefined;
  const proof = dpopKey === undefined ? undefined : proving(dpopKey, party);
  const prepared = isAuthorization(grant) ? undefined : await idTokens.prepare(request, rules);
  const until = performance.now() + deadlineMs;

  const exchangeOnce = async (): Promise<AnsweredGrant> => {
    let exchange: AnsweredGrant | undefined;
    const transport = party.transport({
      form: tokenForm(rules, form.isRenewal),
      signal: request.signal,
      deadlineMs: Math.max(1, until - performance.now()),
      mayFollow: request.mayFollow,
      onResponse(answer, sentAtMs) {
        const answered = { status: answer.status, contentType: answer.header("content-type"), body: answer.body };
        const { tokenAnswer: at, defaultLifetime } = rules;
        const isAssertion = grant.type === "token_exchange" && grant.isForAssertion === true;
        const options = { at, defaultLifetime, sentAtMs, isBound: proof !== undefined, isAssertion };
        const reading =
          further === undefined
            ? readTokenAnswer(answered, options)
            : readFurtherAnswer(answered, options, rules.furtherTokens[further]);
        exchange = { answer, reading, sentAtMs };
      },
    });
    await genericTokenEndpointRequest(
      party.server,
      party.client,
      form.isRenewal && rules.renewal?.noClientSecret === true ? None() : party.authentication,
      form.grantType,
      { ...form.parameters },
      proof === undefined ? transport : { ...transport, DPoP: proof },
    );
    if (exchange === undefined) throw new Error("the OAuth library sent no request");
    return exchange;
  };

  let { answer, reading, sentAtMs } = await exchangeOnce();
  // RFC 9449, section 8: the rejection carries a new nonce, and the grant was not examined.
  if (proof !== undefined && isRefusedFor(reading, "use_dpop_nonce"))
    ({ answer, reading, sentAtMs } = await exchangeOnce());
  if (isAboutTime(reading, party) && party.learnClock(answer)) ({ answer, reading, sentAtMs } = await exchangeOnce());

  const tokens = takenFrom(reading, {
    parties: request,
    answer,
    secrets: [...party.secrets, ...form.secrets],
    kindOf: (status, code) => kindOf({ status, code, grant: grant.type, rules }),
    nowMs: world.now(),
  });
  const believed = await idTokens.believed(tokens, { request, rules, prepared, nowMs: party.nowMs() });
  if (form.isRenewal) return { ...believed, dpopKey };
  const whole = await furtherExchanges(believed, rules.exchanges, { request, send, world });
  return { ...whole, dpopKey, furtherTokens: furtherTokensIn(whole.raw, rules, sentAtMs) };
}

export function oauth2RulesOf({ provider: { auth } }: Pick<TokenParties, "provider">): OAuth2Rules {
  if (auth.case === "oauth2" || auth.case === "oauth2Client") return auth.value;
  throw misconfigured("not_oauth2", "the provider does not support OAuth 2");
}

/** Returns the scopes to request: the caller's, or else the integration's, or else the provider's default. */
export function scopesFor(
  { integration }: TokenParties,
  { defaultScopes }: OAuth2Rules,
  scopes: readonly string[],
): readonly string[] {
  if (scopes.length > 0) return scopes;
  const own = integration.oauth?.scopes ?? [];
  return own.length > 0 ? own : defaultScopes;
}

const withFilledParams = (rules: OAuth2Rules, parties: TokenParties): OAuth2Rules => ({
  ...rules,
  tokenParams: filledParams(rules.tokenParams, parties),
  refreshParams: filledParams(rules.refreshParams, parties),
});

function proving(dpopKey: string, { client, nowMs }: Party): DPoPHandle {
  return DPoP(client, readDpopKey(dpopKey), {
    [modifyAssertion](_, claims) {
      claims["iat"] = Math.floor(nowMs() / 1_000);
    },
  });
}

const isRefusedFor = (reading: TokenReading, ...codes: readonly string[]): boolean =>
  reading.is === "refusal" && reading.code !== undefined && codes.includes(reading.code);

/**
 * Returns whether a short-lived proof was rejected: our clock may differ from the provider's. The grant itself was not
 * examined.
 */
function isAboutTime(reading: TokenReading, { rules }: Party): boolean {
  const isAsserting = rules.tokenEndpointAuthMethod.endsWith("_jwt");
  return (
    (isAsserting && isRefusedFor(reading, "invalid_client")) ||
    (rules.dpop && isRefusedFor(reading, "invalid_dpop_proof"))
  );
}
