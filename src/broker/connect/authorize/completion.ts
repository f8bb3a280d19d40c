import { create } from "@bufbuild/protobuf";
import type { World } from "../../../base/world.ts";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { OAuth2Rules } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { SharedCallbacks } from "../../setup/shared-callbacks.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import { isSessionOver } from "../session-list.ts";
import type { AuthorizationContext, AuthorizationContexts } from "./authorization-context.ts";
import type { AuthorizedConnections, StoredAuthorization } from "./authorized-connection.ts";
import { type CallbackAnswer, isSignedCallback } from "./callback.ts";
import { callbackConfig } from "./callback-config.ts";
import { AuthorizationFailure, refusedOr } from "./failure.ts";
import { grantResultOf } from "./grant-result.ts";
import { createInstallations } from "./installation.ts";

/** Exchanges a provider's response for credentials, and stores the connection. Throws what kept it from that. */
export type CompleteAuthorization = (
  pending: PendingAuthorization,
  answer: CallbackAnswer,
) => Promise<StoredAuthorization>;

interface CompletionOptions {
  readonly collections: AuthorizationCollections;
  readonly contexts: AuthorizationContexts;
  readonly authorized: AuthorizedConnections;
  readonly sharedCallbacks: Pick<SharedCallbacks, "hasIssuer">;
  readonly tokenEndpoint: TokenEndpoint;
  readonly world: World;
}

interface CompletionRequest {
  readonly pending: PendingAuthorization;
  readonly answer: CallbackAnswer;
  readonly context: AuthorizationContext;
  readonly parties: TokenParties;
}

export function createCompleteAuthorization(options: CompletionOptions): CompleteAuthorization {
  const { collections, contexts, authorized, sharedCallbacks, tokenEndpoint, world } = options;

  const installed = createInstallations(tokenEndpoint);

  async function completeOAuth2({ pending, answer, context, parties }: CompletionRequest, rules: OAuth2Rules) {
    const { callbackSignature: rule } = rules;
    const secret = parties.secrets?.clientSecret ?? "";
    if (rule !== undefined && answer.error === undefined && !isSignedCallback(answer.parameters, { rule, secret })) {
      throw new AuthorizationFailure("signature", "The signature of the provider's answer is not valid.");
    }
    // Identify the issuer before trusting any other part of the response (RFC 9207, section 2.4).
    const { issuer, issuerAlways, url } = await tokenEndpoint.authorization(parties);
    const { iss } = answer;
    const isForeign = iss === undefined ? issuerAlways : issuer === "" ? isAnothers(iss, url, context) : iss !== issuer;
    if (pending.issuer !== "" && pending.issuer !== issuer)
      throw new AuthorizationFailure("issuer_mismatch", "The server has moved to another login. Begin again.");
    if (isForeign) throw new AuthorizationFailure("issuer_mismatch", "The answer may be from another provider.");
    const { parameters } = refusedOr(answer);
    const code = parameters.get(rules.parameterNames?.callbackCode || "code") || undefined;
    if (code === undefined)
      throw new AuthorizationFailure("provider_error", "The provider sent neither a code nor an error.");
    const connectionConfig = { ...pending.connectionConfig, ...callbackConfig(parameters, rules, context.provider) };
    const tokens = await tokenEndpoint.ask({
      ...parties,
      connectionConfig: { ...parties.connectionConfig, ...connectionConfig },
      grant: {
        type: "authorization_code",
        code,
        redirectUri: pending.redirectUri,
        codeVerifier: pending.codeVerifier === "" ? undefined : pending.codeVerifier,
        nonce: pending.nonce === "" ? undefined : pending.nonce,
      },
    });
    return authorized.file(
      context,
      grantResultOf(tokens, { scopes: pending.scopes, connectionConfig, issuer: pending.issuer }),
    );
  }

  /**
   * If no issuer is known to compare with: the `iss` belongs to another integration, and not to the page's own origin.
   */
  const isAnothers = (iss: string, url: string, { integration }: AuthorizationContext): boolean =>
    sharedCallbacks.hasIssuer(iss, integration) && !(URL.canParse(iss) && new URL(iss).origin === new URL(url).origin);

  async function completeOAuth1({ pending, answer, context, parties }: CompletionRequest) {
    const { verifier } = refusedOr(answer);
    if (verifier === undefined) throw new AuthorizationFailure("provider_error", "The provider sent no verifier.");
    const temporary = { token: pending.temporaryToken, secret: pending.temporarySecret };
    const { token, secret, raw } = await tokenEndpoint.accessToken({ ...parties, temporary, verifier });
    const value = { oauthToken: token, oauthTokenSecret: secret, raw };
    return authorized.file(context, {
      credentials: create(CredentialsSchema, { kind: { case: "oauth1", value } }),
      connectionConfig: pending.connectionConfig ?? {},
      metadata: {},
      grantedScopes: [],
      missingScopes: [],
    });
  }

  return async (pending, answer) => {
    const session = await collections.connectSessions.get(pending.sessionId);
    if (session === undefined || isSessionOver(session.value, world.now())) {
      throw new AuthorizationFailure("session_over", "The link that you opened has been used, or is too old.");
    }
    const context = await contexts.of(session, pending.integration);
    const { auth } = context.provider;
    const parties = await contexts.partiesOf(context, pending.connectionConfig ?? {});
    if (auth.case === "oauth1") return completeOAuth1({ pending, answer, context, parties });
    if (auth.case === "app" && auth.value.installUrl !== "") {
      const grant = await installed({ answer, parties, pending, rules: auth.value });
      return authorized.file(context, grant);
    }
    if (auth.case !== "oauth2")
      throw new AuthorizationFailure(
        "misconfigured",
        "This integration now uses another kind of credentials. Begin again.",
      );
    return completeOAuth2({ pending, answer, context, parties }, auth.value);
  };
}
