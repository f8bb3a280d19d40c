import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Tokens } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { missingScopes } from "../../../core/granted-scopes.ts";
import { type PendingAuthorization, PendingAuthorizationSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Credentials, CredentialsSchema } from "../../../gen/latchkey/v1/credentials_pb.ts";
import type { OAuth2Rules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { StaleWrite, type Store } from "../../../store/contract.ts";
import type { Audit } from "../../audit/audit.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { Providers } from "../../setup/providers.ts";
import type { SetupCollections } from "../../setup/setup-collections.ts";
import type { SharedCallbacks } from "../../setup/shared-callbacks.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import { isSessionOver } from "../sessions.ts";
import type { AuthorizationContext, AuthorizationContexts } from "./authorization-context.ts";
import type { AuthorizedConnections, GrantResult } from "./authorized-connection.ts";
import { type CallbackAnswer, isSame, isSignedCallback, readCallback } from "./callback.ts";
import type { AuthorizationAttempt, FailedAuthorizations } from "./failed-authorizations.ts";
import { AuthorizationFailure, type FailureReason, refusedOr } from "./failure.ts";
import { isOver } from "./pending-authorizations.ts";

/** The browser's return from a provider. */
export interface AuthorizationCallback {
  /** The query as received, without the question mark. */
  readonly query: string;
  /** The last segment of the redirect URI; empty: the URI is shared by integrations. */
  readonly context: string;
  readonly browser: string | undefined;
}

/** The outcome for the end user, and for the listener. */
export interface AuthorizationOutcome {
  readonly integration: string;
  /** The integration's name for people. */
  readonly title: string;
  readonly listener: string;
  readonly returnTo: string;
  /** The language requested at the start; empty: the browser's. */
  readonly language: string;
  readonly theme: string;
  readonly connected?: { readonly connectionId: string; readonly missingScopes: readonly string[] };
  readonly failed?: { readonly by: FailureReason; readonly message: string };
}

export type FinishAuthorization = (back: AuthorizationCallback) => Promise<AuthorizationOutcome>;

interface FinishAuthorizationOptions {
  readonly store: Store;
  readonly collections: SetupCollections & AuthorizationCollections;
  readonly providers: Providers;
  readonly grounds: AuthorizationContexts;
  readonly authorized: AuthorizedConnections;
  readonly sharedCallbacks: Pick<SharedCallbacks, "hasIssuer">;
  readonly tokenEndpoint: TokenEndpoint;
  readonly failures: FailedAuthorizations;
  readonly audit: Audit;
  readonly world: World;
}

export function createFinishAuthorization(options: FinishAuthorizationOptions): FinishAuthorization {
  const { store, collections, providers, grounds, authorized, tokenEndpoint, failures, audit, world } = options;
  const { sharedCallbacks } = options;
  const { pendingAuthorizations } = collections;

  /** Takes all authorizations that a response names by its states. Throws if it names none. */
  async function takeAll({ state, otherStates }: CallbackAnswer, context: string) {
    const taken: PendingAuthorization[] = [];
    for (const one of [state, ...otherStates]) {
      const pending = await take(one, context).catch((error: unknown) => {
        if (error instanceof Fault && error.code === "unknown_authorization") return undefined;
        throw error;
      });
      if (pending !== undefined) taken.push(pending);
    }
    const [first, ...others] = taken;
    if (first === undefined) throw unknown();
    return { first, others };
  }

  /** Removes the pending authorization, whatever the outcome. The commit decides between concurrent callers. */
  async function take(state: string, context: string): Promise<PendingAuthorization> {
    const found = await pendingAuthorizations.get(digestOf(state));
    if (found === undefined) throw unknown();
    const { value: pending } = found;
    const isElsewhere = pending.context !== context;
    const { environment, integration } = pending;
    const line = { actor: "browser", action: "authorization.context_mismatch", environment, targets: [integration] };
    try {
      await store.commit([
        ...pendingAuthorizations.change({ before: found, after: undefined }),
        ...(isElsewhere ? audit.changes(line) : []),
      ]);
    } catch (error) {
      if (error instanceof StaleWrite) throw unknown();
      throw error;
    }
    if (isOver(pending, world.now())) throw unknown();
    return pending;
  }

  async function finish({ query, context, browser }: AuthorizationCallback): Promise<AuthorizationOutcome> {
    const answer = readCallback(query);
    if (answer === undefined) throw unknown();
    const { first: pending, others } = await takeAll(answer, context);
    for (const other of others) await failures.note(malformed(answer), await failingOf(other, answer));
    const { integration, listener, returnTo, language, theme } = pending;
    const failing = await failingOf(pending, answer);
    const { credentials: kind } = failing;
    const common = { integration, title: await titleOf(pending), listener, returnTo, language, theme };
    try {
      if (pending.context !== context)
        throw new AuthorizationFailure("context_mismatch", "The answer came back to another address.");
      if (browser === undefined || !isSame(digestOf(browser), pending.browserHash)) {
        throw new AuthorizationFailure(
          "other_browser",
          "This was begun in another browser, or its cookies were not kept.",
        );
      }
      if (answer.misuse !== undefined) throw malformed(answer);
      const connected = await complete(pending, answer);
      world.metrics.authorizations.inc({ credentials: kind, outcome: "connected" });
      return { ...common, connected };
    } catch (error) {
      const { by, message } = await failures.note(error, failing);
      return { ...common, failed: { by, message } };
    }
  }

  const failingOf = async (pending: PendingAuthorization, answer: CallbackAnswer): Promise<AuthorizationAttempt> => ({
    environment: pending.environment,
    integration: pending.integration,
    existing: pending.reconnect,
    credentials: await kindOf(pending),
    secrets: [...secretValues(PendingAuthorizationSchema, pending), ...secretsIn(answer)],
  });

  async function kindOf({ environment, integration: key }: PendingAuthorization): Promise<string> {
    const found = await collections.integrations.get(environment, key);
    return (found === undefined ? undefined : providers.lookUp(found.value.provider)?.auth.case) ?? "none";
  }

  async function titleOf({ environment, integration: key }: PendingAuthorization): Promise<string> {
    const found = await collections.integrations.get(environment, key);
    const provider = found === undefined ? undefined : providers.lookUp(found.value.provider);
    return found?.value.displayName || provider?.displayName || key;
  }

  /** Completes the authorization for the browser that began it. */
  async function complete(pending: PendingAuthorization, answer: CallbackAnswer) {
    const session = await collections.connectSessions.get(pending.sessionId);
    if (session === undefined || isSessionOver(session.value, world.now())) {
      throw new AuthorizationFailure("session_over", "The link that this began with has been used, or is too old.");
    }
    const ground = await grounds.of(session, pending.integration);
    const { provider } = ground;
    const asking = await grounds.askingOf(ground, pending.connectionConfig ?? {});
    if (provider.auth.case === "oauth1") return completeOAuth1({ pending, answer, ground, asking });
    if (provider.auth.case !== "oauth2")
      throw new AuthorizationFailure("misconfigured", "It is not authorized like this any more.");
    return completeOAuth2({ pending, answer, ground, asking }, provider.auth.value);
  }

  interface Completing {
    readonly pending: PendingAuthorization;
    readonly answer: CallbackAnswer;
    readonly ground: AuthorizationContext;
    readonly asking: TokenParties;
  }

  async function completeOAuth2({ pending, answer, ground, asking }: Completing, rules: OAuth2Rules) {
    const { callbackSignature: rule } = rules;
    const secret = asking.secrets?.clientSecret ?? "";
    if (rule !== undefined && answer.error === undefined && !isSignedCallback(answer.parameters, { rule, secret })) {
      throw new AuthorizationFailure("signature", "The answer is not signed as the provider signs it.");
    }
    // Identify the issuer before trusting any other part of the response (RFC 9207, section 2.4).
    const { issuer, issuerAlways, url } = await tokenEndpoint.authorization(asking);
    const { iss } = answer;
    const isForeign = iss === undefined ? issuerAlways : issuer === "" ? isAnothers(iss, url, ground) : iss !== issuer;
    if (isForeign)
      throw new AuthorizationFailure("issuer_mismatch", "The answer is not from the provider that was asked.");
    const { code } = refusedOr(answer);
    if (code === undefined)
      throw new AuthorizationFailure("provider_error", "The provider sent neither a code nor an error.");
    const tokens = await tokenEndpoint.ask({
      ...asking,
      grant: {
        type: "authorization_code",
        code,
        redirectUri: pending.redirectUri,
        codeVerifier: pending.codeVerifier === "" ? undefined : pending.codeVerifier,
        nonce: pending.nonce === "" ? undefined : pending.nonce,
      },
    });
    return authorized.file(ground, broughtBy(tokens, pending));
  }

  /**
   * If no issuer is known to compare with: the `iss` belongs to another integration, and not to the page's own origin.
   */
  const isAnothers = (iss: string, url: string, { integration }: AuthorizationContext): boolean =>
    sharedCallbacks.hasIssuer(iss, integration) && !(URL.canParse(iss) && new URL(iss).origin === new URL(url).origin);

  async function completeOAuth1({ pending, answer, ground, asking }: Completing) {
    const { verifier } = refusedOr(answer);
    if (verifier === undefined) throw new AuthorizationFailure("provider_error", "The provider sent no verifier.");
    const temporary = { token: pending.temporaryToken, secret: pending.temporarySecret };
    const { token, secret, raw } = await tokenEndpoint.accessToken({ ...asking, temporary, verifier });
    const value = { oauthToken: token, oauthTokenSecret: secret, raw };
    return authorized.file(ground, {
      credentials: create(CredentialsSchema, { kind: { case: "oauth1", value } }),
      connectionConfig: pending.connectionConfig ?? {},
      metadata: {},
      grantedScopes: [],
      missingScopes: [],
    });
  }

  return finish;
}

/** The same error for every unacceptable state, so that guessing states reveals nothing. */
const unknown = () =>
  new Fault("unknown_authorization", "this answer belongs to no authorization that is under way: begin again");

/** All values, so that a repeated code is redacted as well. */
const secretsIn = ({ state, otherStates, parameters }: CallbackAnswer): string[] => [
  ...[state, ...otherStates],
  ...["code", "oauth_verifier"].flatMap((name) => parameters.getAll(name)).filter((one) => one !== ""),
];

const malformed = ({ misuse }: CallbackAnswer) =>
  new AuthorizationFailure("malformed_answer", "The provider's answer is not well-formed. Begin again.", misuse);

/** Converts tokens into the result of the grant. */
export function broughtBy(
  tokens: Tokens,
  { scopes, connectionConfig }: Pick<PendingAuthorization, "scopes" | "connectionConfig">,
): GrantResult {
  const granted = tokens.scopes ?? scopes;
  return {
    credentials: oauth2Credentials(tokens),
    connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
    metadata: tokens.metadata,
    grantedScopes: granted,
    missingScopes: missingScopes(scopes, granted),
  };
}

function oauth2Credentials(tokens: Tokens): Credentials {
  const { accessToken, refreshToken = "", dpopKey = "", raw } = tokens;
  const value = { accessToken, refreshToken, raw, dpopKey, ...tokenExpiry(tokens) };
  return create(CredentialsSchema, { kind: { case: "oauth2", value } });
}

/** The expiry of an access token, if known. */
export const tokenExpiry = ({ expiresAtMs }: Tokens) =>
  expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };
