import { create, type JsonValue } from "@bufbuild/protobuf";
import { refreshedCredentials, tokenRefreshOf } from "../../auth/credential-refresh.ts";
import { shownCode } from "../../auth/oauth2/token-failures.ts";
import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import type { SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { retryAfterMs } from "../../core/outgoing/retry-after.ts";
import { TokenRevocation_Result as Result } from "../../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../../gen/latchkey/v1/credentials_pb.ts";
import { BasicRulesSchema, NoAuthRulesSchema, type RevocationRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { valueAt } from "../../providers/dotted-path.ts";
import type { AskWithConnection } from "../credentials/connection-request.ts";
import type { LiveConnection } from "../credentials/live-connections.ts";
import { jsonOf } from "../credentials/provider-requests.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import { isBusy, type RevocationFailure } from "./attempt-failure.ts";
import {
  allOf,
  type RevocationAttempt,
  type RevocationOutcome,
  type RevokeTokens,
  resultOf,
} from "./attempt-request.ts";
import { revocationDeadlineMs } from "./endpoint-revocation.ts";
import { clientOf, isAccessExpired, tokensToRevoke } from "./grant-tokens.ts";
import { filledRevocation, namesAccessToken, revocationValues } from "./revocation-request.ts";

interface DescribedRevocationOptions {
  readonly endpoint: Pick<TokenEndpoint, "ask">;
  readonly askWith: AskWithConnection;
  readonly world: World;
}

interface ReceivedAnswer {
  readonly rules: RevocationRules;
  readonly credentials: Credentials;
  readonly nowMs: number;
}

const maxBytes = 64 * 1024;

/** Revokes by the request of the provider's description. */
export function createDescribedRevocation(options: DescribedRevocationOptions): RevokeTokens {
  const { endpoint, askWith, world } = options;

  /** Sends the request of the provider's description. */
  async function revoke(live: LiveConnection, request: RevocationAttempt): Promise<RevocationOutcome> {
    const { revocation: rules } = live.provider;
    const template = rules?.request;
    if (rules === undefined || template === undefined) throw new Error("the provider has a revocation request");
    const isByConnection = rules.authorization === "" || namesAccessToken(template);
    const current = isByConnection ? await withLiveToken(live, request) : live;
    if (current === undefined) return allOf(request, Result.REVOKED, "grant_dead");
    const values = revocationValues({ ...request.task, credentials: current.credentials });
    const filled = filledRevocation(template, values);
    if (filled === undefined) return { tokens: request.tokens, failure: { kind: "refused", code: "value_missing" } };
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(revocationDeadlineMs)]);
    const answer = await askWith(senderOf(current, rules), filled, {
      signal,
      deadlineMs: revocationDeadlineMs,
      maxBytes,
    });
    const failure = refusalIn(answer, { rules, credentials: current.credentials, nowMs: world.now() });
    if (failure !== undefined) return { tokens: request.tokens, failure };
    const tokens = request.tokens.map((one) =>
      rules.tokens.length === 0 || rules.tokens.includes(one.token)
        ? resultOf(one, Result.REVOKED)
        : resultOf(one, Result.NOT_SUPPORTED),
    );
    return { tokens, failure: undefined };
  }

  /** Refreshes an expired access token that the request needs. Undefined: the grant is dead already. */
  async function withLiveToken(live: LiveConnection, request: RevocationAttempt): Promise<LiveConnection | undefined> {
    const { credentials, provider, integration, secrets, connection } = live;
    const refresh = isAccessExpired(credentials, world.now()) ? tokenRefreshOf(live) : undefined;
    if (refresh === undefined) return live;
    const connectionConfig = { ...integration.connectionDefaults, ...connection.connectionConfig };
    try {
      const { grant, client, dpopKey } = refresh;
      const { signal } = request;
      const parties = { provider, integration, secrets, client, connectionConfig, signal };
      const renewed = create(CredentialsSchema, {
        kind: refreshedCredentials(credentials, await endpoint.ask({ ...parties, grant, dpopKey })),
      });
      await request.onRefreshed(renewed);
      return { ...live, credentials: renewed };
    } catch (error) {
      if (error instanceof TokenFailure && error.kind === "grant_dead") return undefined;
      throw error;
    }
  }

  return revoke;
}

/** Returns why the response does not end the tokens; undefined if it does. */
function refusalIn(answer: SmallAnswer, { credentials, rules, nowMs }: ReceivedAnswer): RevocationFailure | undefined {
  const { status } = answer;
  if (rules.goneStatuses.includes(status)) return undefined;
  const body = jsonOf(answer);
  const code = rules.error === "" || body === undefined ? undefined : codeOf(valueAt(rules.error, body));
  if (code !== undefined && rules.goneErrors.includes(code)) return undefined;
  const isGood = status >= 200 && status < 300;
  if (isGood && (rules.accepted === "" || (body !== undefined && isAccepted(valueAt(rules.accepted, body))))) {
    return undefined;
  }
  const secrets = tokensToRevoke(credentials, "request", nowMs).map(({ value }) => value);
  const shown = shownCode(code, secrets) ?? (isGood ? "not_accepted" : `http_${status}`);
  const waitMs = retryAfterMs(answer.header("retry-after"), "seconds", nowMs);
  return { kind: isBusy(status) ? "away" : "refused", code: shown, retryAfterMs: waitMs };
}

/** Returns who sends the request: the connection, the OAuth app, or no one. */
function senderOf(live: LiveConnection, { authorization }: RevocationRules): LiveConnection {
  const { provider } = live;
  if (authorization === "client") {
    const { id: username, secret: password } = clientOf(live);
    const basic = { username, password };
    return {
      ...live,
      provider: { ...provider, auth: { case: "basic", value: create(BasicRulesSchema) } },
      credentials: create(CredentialsSchema, { kind: { case: "basic", value: basic } }),
    };
  }
  if (authorization !== "none") return live;
  return {
    ...live,
    provider: { ...provider, auth: { case: "none", value: create(NoAuthRulesSchema) } },
    credentials: create(CredentialsSchema, { kind: { case: "none", value: {} } }),
  };
}

const codeOf = (value: JsonValue | undefined): string | undefined => (typeof value === "string" ? value : undefined);
const isAccepted = (value: JsonValue | undefined): boolean =>
  value !== undefined && value !== null && value !== false && value !== "";
