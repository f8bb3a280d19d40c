import { randomBytes, randomUUID } from "node:crypto";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { TokenFailure, type Tokens } from "../auth/tokens.ts";
import { Fault } from "../base/fault.ts";
import { digestOf, randomId } from "../base/ids.ts";
import type { World } from "../base/world.ts";
import { authorizationParameters, isReserved, withQuery } from "../core/authorization-request.ts";
import { type CallbackAnswer, isDenial, isSame, isSignedCallback, readCallback } from "../core/callback.ts";
import { askedOfUsers, connectConfig, scopesOverride } from "../core/connect-params.ts";
import { checkConnectionConfig } from "../core/connection-rules.ts";
import { Unbound } from "../core/filled-url.ts";
import { missingScopes, scopesIn, wantedScopes } from "../core/granted-scopes.ts";
import { challengeOf } from "../core/pkce.ts";
import { redirectContext } from "../core/redirect-context.ts";
import { returnTarget } from "../core/return-target.ts";
import { type PendingAuthorization, PendingAuthorizationSchema } from "../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectSession } from "../gen/latchkey/v1/connect_session_pb.ts";
import {
  type Connection,
  ConnectionImportSchema,
  ConnectionRefSchema,
  ConnectionSchema,
} from "../gen/latchkey/v1/connection_pb.ts";
import { type Credentials, CredentialsSchema } from "../gen/latchkey/v1/credentials_pb.ts";
import { type Integration, Integration_Callback } from "../gen/latchkey/v1/integration_pb.ts";
import type { OAuth2Rules, Provider } from "../gen/latchkey/v1/provider_pb.ts";
import { StaleWrite, type Store } from "../store/contract.ts";
import type { Stored } from "../store/records.ts";
import type { Audit } from "./audit.ts";
import { filledFor } from "./authorization-server.ts";
import type { Collections } from "./collections.ts";
import type { Connections } from "./connections.ts";
import type { Environments } from "./environments.ts";
import type { Imports } from "./imports.ts";
import type { Integrations } from "./integrations.ts";
import type { LiveConnection } from "./live.ts";
import type { ProviderAsks } from "./provider-asks.ts";
import type { Providers } from "./providers.ts";
import type { Sessions } from "./sessions.ts";
import { faultOfStore } from "./store-fault.ts";
import type { Asking, TokenEndpoint } from "./token-endpoint.ts";

/** End users on their way to a provider and back, and what they bring along. */
export interface Authorizations {
  /** Remembers who leaves, and says where to. */
  begin(asked: Departure): Promise<{ readonly location: string }>;
  /**
   * Takes what was remembered, whatever comes of it, and makes the connection. Throws `unknown_authorization` for an
   * answer that belongs to nobody, and nothing else: once it is known whose it is, what came of it is returned.
   */
  finish(back: Return): Promise<Outcome>;
  /** A connection of credentials that an end user typed in. */
  connect(given: GivenCredentials): Promise<Connection>;
  /** What stands in the redirect URI of an integration. */
  callbackUrl(integration: Integration): Promise<string>;
}

export interface Departure {
  readonly session: Stored<ConnectSession>;
  readonly integration: string;
  /** Of the connection's `connection_config`, as the end user filled them in. */
  readonly params: Readonly<Record<string, string>>;
  readonly userScopes: readonly string[];
  /** Undefined within: a parameter of the provider's that is left out. */
  readonly authorizationParams: Readonly<Record<string, string | undefined>>;
  /** Who waits to hear what came of it; empty: nobody. */
  readonly listener: string;
  /** Where the browser wants to go afterwards; empty: nowhere. Not judged yet. */
  readonly returnTo: string;
  /** The secret of the browser's cookie. */
  readonly browser: string;
}

export interface Return {
  /** As it came, without the question mark. */
  readonly query: string;
  /** The last segment of the redirect URI; empty: the one that integrations share. */
  readonly context: string;
  readonly browser: string | undefined;
}

/** Why there is no connection, as metrics have it. */
export type FailedBy =
  | "denied"
  | "other_browser"
  | "context_mismatch"
  | "issuer_mismatch"
  | "signature"
  | "provider_error"
  | "session_over"
  | "token_refused"
  | "provider_unavailable"
  | "misconfigured"
  | "refused";

export interface Outcome {
  readonly integration: string;
  /** What a person calls the integration. */
  readonly title: string;
  readonly listener: string;
  readonly returnTo: string;
  readonly connected?: { readonly connectionId: string; readonly missingScopes: readonly string[] };
  readonly failed?: { readonly by: FailedBy; readonly message: string };
}

export interface GivenCredentials {
  readonly session: Stored<ConnectSession>;
  readonly integration: string;
  readonly credentials: Credentials;
  readonly params: Readonly<Record<string, string>>;
}

interface AuthorizationsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly environments: Environments;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly connections: Connections;
  readonly sessions: Sessions;
  readonly imports: Imports;
  readonly tokenEndpoint: TokenEndpoint;
  readonly asks: ProviderAsks;
  readonly publicUrl: () => string;
  readonly audit: Audit;
  readonly world: World;
}

export const pendingLifetimeMs = 10 * 60_000;
/** Of one session: who begins more often is not a person. */
const maxPending = 20;

/** Whose authorization it is, with all that it takes to go on with it. */
interface Ground {
  readonly session: Stored<ConnectSession>;
  readonly integration: Integration;
  readonly provider: Provider;
  /** What is authorised again. */
  readonly existing: Connection | undefined;
}

export function createAuthorizations(options: AuthorizationsOptions): Authorizations {
  const { store, collections, environments, integrations, providers, connections, sessions, imports } = options;
  const { tokenEndpoint, asks, publicUrl, audit, world } = options;
  const { pendingAuthorizations } = collections;

  async function groundOf(session: Stored<ConnectSession>, key: string): Promise<Ground> {
    const { environment, allowedIntegrations, reconnect } = session.value;
    const isAllowed = allowedIntegrations.length === 0 || allowedIntegrations.includes(key);
    if (!isAllowed)
      throw new Fault("unknown_provider_config", `this connect session is not for the integration "${key}"`);
    const { value: integration } = await integrations.get({ environment, key });
    const existing = reconnect === undefined ? undefined : (await connections.get(reconnect)).value;
    return { session, integration, provider: providers.find(integration.provider), existing };
  }

  async function contextOf({ environment, key, provider, callback }: Integration): Promise<string> {
    if (callback !== Integration_Callback.BOUND) return "";
    const { id } = await environments.get(environment);
    return redirectContext({ environmentId: id, integration: key, provider });
  }

  const redirectUri = (context: string) => `${publicUrl()}/oauth/callback${context === "" ? "" : `/${context}`}`;

  const askingOf = async ({ integration, provider }: Ground, connectionConfig: JsonObject): Promise<Asking> => ({
    provider,
    integration,
    secrets: await integrations.secretsOf(integration),
    connectionConfig: { ...integration.connectionDefaults, ...connectionConfig },
  });

  const defaultsOf = ({ session, integration }: Ground) => session.value.integrationDefaults[integration.key];

  /** What the connection is going to say of itself. Throws what an end user has to fill in otherwise. */
  function configOf(ground: Ground, given: Readonly<Record<string, string>>): JsonObject {
    const { integration, provider, existing } = ground;
    const session = defaultsOf(ground)?.connectionConfig ?? {};
    const config = connectConfig(provider.connectionFields, {
      existing: existing?.connectionConfig ?? {},
      given,
      session,
    });
    const asked = askedOfUsers(provider.connectionFields);
    const mistakes = checkConnectionConfig({ ...integration.connectionDefaults, ...config }, asked);
    if (mistakes.length > 0) {
      throw new Fault("invalid_query_params", "the connection needs other details", { mistakes });
    }
    return config;
  }

  function scopesOf(ground: Ground, rules: OAuth2Rules, further: readonly string[]): string[] {
    const { integration, existing } = ground;
    const { userScopes = [], connectionConfig = {} } = defaultsOf(ground) ?? {};
    const override = connectionConfig[scopesOverride];
    return wantedScopes({
      configured: typeof override === "string" ? scopesIn(override) : (integration.oauth?.scopes ?? []),
      defaults: rules.defaultScopes,
      // The application's word, where it has one: a page does not widen it.
      further: userScopes.length > 0 ? userScopes : further,
      granted: existing?.grantedScopes ?? [],
    });
  }

  async function requireFew({ value: { id } }: Stored<ConnectSession>): Promise<void> {
    const waiting = await pendingAuthorizations.pageBy("session", { under: [id], limit: maxPending });
    const now = world.now();
    if (waiting.filter(({ value }) => !isOver(value, now)).length < maxPending) return;
    throw new Fault("too_many_requests", "too many authorizations of this connect session have begun and not ended", {
      retryAfterSeconds: pendingLifetimeMs / 1_000,
    });
  }

  async function begin(asked: Departure): Promise<{ readonly location: string }> {
    const ground = await groundOf(asked.session, asked.integration);
    const { session, integration, provider } = ground;
    const { environment } = integration;
    const { auth } = provider;
    const kind = auth.case;
    if (auth.case !== "oauth2" && auth.case !== "oauth1") {
      throw new Fault("invalid_query_params", `"${integration.key}" is not authorized at a provider's page`);
    }
    if ((integration.oauth?.clientId ?? "") === "") {
      throw new Fault("integration_misconfigured", `the integration "${integration.key}" has no client id yet`);
    }
    await requireFew(session);
    const connectionConfig = configOf(ground, asked.params);
    const returnTo = await judged(asked.returnTo, environment);
    const context = await contextOf(integration);
    const asking = await askingOf(ground, connectionConfig);
    const common = {
      environment,
      integration: integration.key,
      sessionId: session.value.id,
      ...(session.value.reconnect === undefined ? {} : { reconnect: session.value.reconnect }),
      redirectUri: redirectUri(context),
      context,
      browserHash: digestOf(asked.browser),
      connectionConfig,
      listener: asked.listener,
      returnTo,
      createdAt: timestampFromMs(world.now()),
    };
    const { location, ...pending } =
      auth.case === "oauth1"
        ? await toOAuth1(filledFor(asking, auth.value.authorizationUrl), asking, common.redirectUri)
        : await toOAuth2({ asked, ground, rules: auth.value, asking, redirectUri: common.redirectUri });
    const after = create(PendingAuthorizationSchema, { ...common, ...pending });
    await store.commit(pendingAuthorizations.change({ before: undefined, after }));
    world.metrics.authorizationsBegun.inc({ credentials: kind ?? "none" });
    return { location };
  }

  async function judged(returnTo: string, environment: string): Promise<string> {
    if (returnTo === "") return "";
    const { allowedOrigins } = await environments.get(environment);
    const target = returnTarget(returnTo, allowedOrigins);
    if (target !== undefined) return target;
    const message = "must be an address of one of the environment's allowed origins";
    throw new Fault("invalid_query_params", `return_to ${message}`, { mistakes: [{ path: ["return_to"], message }] });
  }

  interface Leaving {
    readonly asked: Departure;
    readonly ground: Ground;
    readonly rules: OAuth2Rules;
    readonly asking: Asking;
    readonly redirectUri: string;
  }

  async function toOAuth2({ asked, ground, rules, asking, redirectUri }: Leaving) {
    const reserved = Object.keys(asked.authorizationParams).filter((name) => isReserved(name, rules));
    if (reserved.length > 0) {
      const mistakes = reserved.map((name) => ({
        path: ["authorization_params", name],
        message: "is not a page's to say",
      }));
      throw new Fault("invalid_query_params", "the authorization cannot begin like that", { mistakes });
    }
    const state = unguessable();
    const codeVerifier = rules.noPkce ? "" : unguessable();
    const scopes = scopesOf(ground, rules, asked.userScopes);
    const nonce = scopes.includes("openid") ? unguessable() : "";
    const { url, pushedUrl } = await tokenEndpoint.authorization(asking);
    if (url === "") throw new Fault("integration_misconfigured", "its provider says nowhere to send end users");
    const parameters = authorizationParameters(rules, {
      clientId: asking.integration.oauth?.clientId ?? "",
      redirectUri,
      state,
      challenge: codeVerifier === "" ? undefined : challengeOf(codeVerifier),
      nonce: nonce === "" ? undefined : nonce,
      scopes,
      isFurther: ground.existing !== undefined,
      params: { ...asked.authorizationParams, ...defaultsOf(ground)?.authorizationParams },
    });
    return {
      stateHash: digestOf(state),
      codeVerifier,
      nonce,
      scopes,
      location: withQuery(url, pushedUrl === "" ? parameters : await pushed(asking, parameters)),
    };
  }

  async function pushed(asking: Asking, { client_id: clientId = "", ...parameters }: Record<string, string>) {
    const { requestUri } = await tokenEndpoint.push({ ...asking, parameters });
    return { client_id: clientId, request_uri: requestUri };
  }

  async function toOAuth1(authorizationUrl: string, asking: Asking, callback: string) {
    const { token, secret } = await tokenEndpoint.requestToken({ ...asking, callback });
    return {
      stateHash: digestOf(token),
      temporaryToken: token,
      temporarySecret: secret,
      scopes: [],
      location: withQuery(authorizationUrl, { oauth_token: token }),
    };
  }

  /** Nobody else takes it after this, whatever comes of it: the commit says who was first. */
  async function take({ state }: CallbackAnswer, context: string): Promise<PendingAuthorization> {
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

  async function finish({ query, context, browser }: Return): Promise<Outcome> {
    const answer = readCallback(query);
    if (answer === undefined) throw unknown();
    const pending = await take(answer, context);
    const { integration, listener, returnTo, environment } = pending;
    const kind = await kindOf(pending);
    const common = { integration, title: await titleOf(pending), listener, returnTo };
    try {
      if (pending.context !== context) throw new Failed("context_mismatch", "The answer came back to another address.");
      if (browser === undefined || !isSame(digestOf(browser), pending.browserHash)) {
        throw new Failed("other_browser", "This was begun in another browser, or its cookies were not kept.");
      }
      const connected = await complete(pending, answer);
      world.metrics.authorizations.inc({ credentials: kind, outcome: "connected" });
      return { ...common, connected };
    } catch (error) {
      const failed = failureOf(error);
      world.metrics.authorizations.inc({ credentials: kind, outcome: failed.by });
      world.log.warn("an authorization failed", {
        environment,
        integration,
        outcome: failed.by,
        reason: failed.reason,
      });
      return { ...common, failed: { by: failed.by, message: failed.message } };
    }
  }

  async function kindOf({ environment, integration: key }: PendingAuthorization): Promise<string> {
    const found = await collections.integrations.get(environment, key);
    return (found === undefined ? undefined : providers.lookUp(found.value.provider)?.auth.case) ?? "none";
  }

  async function titleOf({ environment, integration: key }: PendingAuthorization): Promise<string> {
    const found = await collections.integrations.get(environment, key);
    const provider = found === undefined ? undefined : providers.lookUp(found.value.provider);
    return found?.value.displayName || provider?.displayName || key;
  }

  /** The rest of the way, for whoever is who began. */
  async function complete(pending: PendingAuthorization, answer: CallbackAnswer) {
    const session = await collections.connectSessions.get(pending.sessionId);
    if (session === undefined || isSessionOver(session.value, world.now())) {
      throw new Failed("session_over", "The link that this began with has been used, or is too old.");
    }
    const ground = await groundOf(session, pending.integration);
    const { provider } = ground;
    const asking = await askingOf(ground, pending.connectionConfig ?? {});
    if (provider.auth.case === "oauth1") return completeOAuth1({ pending, answer, ground, asking });
    if (provider.auth.case !== "oauth2") throw new Failed("misconfigured", "It is not authorized like this any more.");
    return completeOAuth2({ pending, answer, ground, asking }, provider.auth.value);
  }

  interface Completing {
    readonly pending: PendingAuthorization;
    readonly answer: CallbackAnswer;
    readonly ground: Ground;
    readonly asking: Asking;
  }

  async function completeOAuth2({ pending, answer, ground, asking }: Completing, rules: OAuth2Rules) {
    const { callbackSignature: rule } = rules;
    const secret = asking.secrets?.clientSecret ?? "";
    if (rule !== undefined && answer.error === undefined && !isSignedCallback(answer.parameters, { rule, secret })) {
      throw new Failed("signature", "The answer is not signed as the provider signs it.");
    }
    // Whose answer it is is known before anything that it says is believed (RFC 9207, section 2.4).
    const { issuer, issuerAlways } = await tokenEndpoint.authorization(asking);
    const isForeign = answer.iss === undefined ? issuerAlways : issuer !== "" && answer.iss !== issuer;
    if (isForeign) throw new Failed("issuer_mismatch", "The answer is not from the provider that was asked.");
    const { code } = refusedOr(answer);
    if (code === undefined) throw new Failed("provider_error", "The provider sent neither a code nor an error.");
    const tokens = await tokenEndpoint.ask({
      ...asking,
      grant: {
        type: "authorization_code",
        code,
        redirectUri: pending.redirectUri,
        codeVerifier: pending.codeVerifier === "" ? undefined : pending.codeVerifier,
      },
    });
    const granted = tokens.scopes ?? pending.scopes;
    return filed(ground, {
      credentials: oauth2Credentials(tokens),
      connectionConfig: { ...pending.connectionConfig, ...tokens.connectionConfig },
      metadata: tokens.metadata,
      grantedScopes: granted,
      missingScopes: missingScopes(pending.scopes, granted),
    });
  }

  async function completeOAuth1({ pending, answer, ground, asking }: Completing) {
    const { verifier } = refusedOr(answer);
    if (verifier === undefined) throw new Failed("provider_error", "The provider sent no verifier.");
    const temporary = { token: pending.temporaryToken, secret: pending.temporarySecret };
    const { token, secret, raw } = await tokenEndpoint.accessToken({ ...asking, temporary, verifier });
    const value = { oauthToken: token, oauthTokenSecret: secret, raw };
    return filed(ground, {
      credentials: create(CredentialsSchema, { kind: { case: "oauth1", value } }),
      connectionConfig: pending.connectionConfig ?? {},
      metadata: {},
      grantedScopes: [],
      missingScopes: [],
    });
  }

  interface Brought {
    readonly credentials: Credentials;
    readonly connectionConfig: JsonObject;
    readonly metadata: JsonObject;
    readonly grantedScopes: readonly string[];
    readonly missingScopes: readonly string[];
  }

  /** Asks the provider about it and files it all in one commit, with which the session ends. */
  async function filed(ground: Ground, brought: Brought) {
    const { session, integration, existing } = ground;
    const { endUser, tags, webhookUrlOverride, createdBy } = session.value;
    const { environment, key } = integration;
    const id = existing?.ref?.id ?? randomUUID();
    const { connectionConfig, metadata } = await asks.describe(await draftOf(ground, brought, id));
    const item = create(ConnectionImportSchema, {
      environment,
      integration: key,
      id,
      credentials: brought.credentials,
      ...(endUser === undefined ? {} : { endUser }),
      // Of a connection that is there, what the session does not name is kept.
      ...(existing !== undefined && Object.keys(tags).length === 0 ? {} : { tags: { tags } }),
      ...(webhookUrlOverride === "" ? {} : { webhookUrlOverride }),
    });
    const { connection } = await imports.authorizeOne(
      {
        item,
        isAgain: existing !== undefined,
        metadata: { ...brought.metadata, ...metadata },
        connectionConfig: { ...brought.connectionConfig, ...connectionConfig },
        grantedScopes: brought.grantedScopes,
        missingScopes: brought.missingScopes,
        async alongside() {
          const current = await collections.connectSessions.get(session.value.id);
          if (current === undefined) throw new Fault("unknown_session", "the connect session has been used");
          return sessions.end(current);
        },
      },
      createdBy,
    );
    return { connectionId: id, missingScopes: brought.missingScopes, connection };
  }

  /** The connection as it is going to be, for what is asked with its credentials before it is there. */
  async function draftOf(ground: Ground, brought: Brought, id: string): Promise<LiveConnection> {
    const { integration, provider } = ground;
    const ref = create(ConnectionRefSchema, { environment: integration.environment, integration: integration.key, id });
    return {
      connection: create(ConnectionSchema, {
        ref,
        provider: provider.name,
        connectionConfig: brought.connectionConfig,
      }),
      integration,
      secrets: await integrations.secretsOf(integration),
      provider,
      credentials: brought.credentials,
    };
  }

  async function connect({ session, integration: key, credentials, params }: GivenCredentials): Promise<Connection> {
    const ground = await groundOf(session, key);
    const wanted = ground.provider.auth.case ?? "none";
    if (credentials.kind.case !== wanted) {
      throw new Fault("invalid_body", `"${key}" takes credentials of another kind`);
    }
    try {
      const connection = await filedIfGood(ground, credentials, configOf(ground, params));
      world.metrics.authorizations.inc({ credentials: wanted, outcome: "connected" });
      return connection;
    } catch (error) {
      if (!(error instanceof Failed || error instanceof TokenFailure)) throw error;
      const { by, message } = failureOf(error);
      world.metrics.authorizations.inc({ credentials: wanted, outcome: by });
      const code = by === "refused" || by === "token_refused" ? "connection_test_failed" : codeOf(by);
      throw new Fault(code, message, { cause: error });
    }
  }

  async function filedIfGood(ground: Ground, credentials: Credentials, connectionConfig: JsonObject) {
    const obtained = await obtainedWith(ground, credentials, connectionConfig);
    const brought = { metadata: {}, connectionConfig, grantedScopes: [], missingScopes: [], ...obtained };
    if ((await asks.prove(await draftOf(ground, brought, ""))) === "refused") {
      throw notAccepted();
    }
    return (await filed(ground, brought)).connection;
  }

  /** Of a client of the end user's own, a first token: whether it is good is known at once. */
  async function obtainedWith(ground: Ground, credentials: Credentials, connectionConfig: JsonObject) {
    const { auth } = ground.provider;
    if (credentials.kind.case !== "oauth2Client" || auth.case !== "oauth2Client") return { credentials };
    const given = credentials.kind.value;
    const scopes = scopesOf(ground, auth.value, []);
    const client = {
      id: given.clientId,
      secret: given.clientSecret,
      certificate: given.clientCertificate || undefined,
      privateKey: given.clientPrivateKey || undefined,
    };
    const asking = { ...(await askingOf(ground, connectionConfig)), client };
    const tokens = await tokenEndpoint
      .ask({ ...asking, grant: { type: "client_credentials", scopes } })
      .catch((error: unknown) => {
        // Here the client is what somebody typed in, and no operator's.
        if (error instanceof TokenFailure && error.kind === "client_refused") throw notAccepted(error.code);
        throw error;
      });
    const value = { ...given, token: tokens.accessToken, raw: tokens.raw, ...expiryOf(tokens) };
    const grantedScopes = tokens.scopes ?? scopes;
    return {
      credentials: create(CredentialsSchema, { kind: { case: "oauth2Client", value } }),
      connectionConfig: { ...connectionConfig, ...tokens.connectionConfig },
      metadata: tokens.metadata,
      grantedScopes,
      missingScopes: missingScopes(scopes, grantedScopes),
    };
  }

  function failureOf(error: unknown): Failed {
    if (error instanceof Failed) return error;
    if (error instanceof TokenFailure) return failedBy(error);
    const fault = error instanceof Unbound ? new Fault("connection_unusable", error.message) : faultOfStore(error);
    if (fault.code !== "internal") return new Failed("refused", sentence(fault.message), fault.code);
    const id = randomId();
    world.metrics.unhandled.inc();
    world.log.error("an authorization failed unexpectedly", { log_id: id, err: fault.cause });
    return new Failed("refused", `Something went wrong here; the log has it as ${id}.`, "internal");
  }

  return {
    begin: (asked) => begin(asked).catch(translate),
    finish,
    connect,
    callbackUrl: async (integration) => redirectUri(await contextOf(integration)),
  };
}

/** 256 random bits, in 43 characters: as long as a PKCE verifier has to be (RFC 7636, section 4.1). */
const unguessable = (): string => randomBytes(32).toString("base64url");

const isOver = ({ createdAt }: PendingAuthorization, now: number): boolean =>
  createdAt === undefined || timestampMs(createdAt) + pendingLifetimeMs <= now;
const isSessionOver = ({ expiresAt }: ConnectSession, now: number): boolean =>
  expiresAt === undefined || timestampMs(expiresAt) <= now;

/** The same for whatever is not to be taken: who tries states learns nothing of them. */
const unknown = () =>
  new Fault("unknown_authorization", "this answer belongs to no authorization that is under way: begin again");

/** Why an authorization that was under way brought no connection, in a sentence for its end user. */
class Failed extends Error {
  override readonly name = "Failed";
  readonly by: FailedBy;
  /** A code, for the log. */
  readonly reason: string | undefined;

  constructor(by: FailedBy, message: string, reason?: string) {
    super(message);
    this.by = by;
    this.reason = reason;
  }
}

const notAccepted = (code?: string) =>
  new Failed("refused", "The provider does not accept these credentials. Nothing was stored.", code);

/** What the provider says went wrong, if it says so. Its own words are not shown: anybody can put some into a link. */
function refusedOr(answer: CallbackAnswer): CallbackAnswer {
  const { error } = answer;
  if (error === undefined) return answer;
  if (isDenial(error)) throw new Failed("denied", "Access was not allowed.", "denied");
  const code = /^[\x21-\x7e]{1,64}$/.test(error) ? error : "an unreadable error";
  throw new Failed("provider_error", `The provider refused: ${code}.`, code);
}

function failedBy({ kind, code }: TokenFailure): Failed {
  switch (kind) {
    case "grant_dead":
      return new Failed("token_refused", "The provider did not accept what it had just issued. Begin again.", code);
    case "client_refused":
    case "misconfigured":
      return new Failed(
        "misconfigured",
        "The provider does not accept this application. Its operator must mend that.",
        code,
      );
    case "unusable":
      return new Failed("provider_error", "The provider answered with what cannot be used.", code);
    default:
      return new Failed("provider_unavailable", "The provider could not be reached. Begin again in a moment.", code);
  }
}

const codeOf = (by: FailedBy) =>
  by === "misconfigured"
    ? "integration_misconfigured"
    : by === "provider_unavailable"
      ? "provider_unreachable"
      : "authorization_failed";

/** A refusal of the provider on the way there, as whoever asked to go is told. */
function translate(error: unknown): never {
  if (error instanceof Unbound) {
    throw new Fault("connection_unusable", `the connection cannot be used: ${error.message}`, { cause: error });
  }
  if (!(error instanceof TokenFailure)) throw error;
  const { by, message } = failedBy(error);
  throw new Fault(codeOf(by), message, { cause: error });
}

const sentence = (message: string): string => `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;

const expiryOf = ({ expiresAtMs }: Tokens) =>
  expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };

function oauth2Credentials(tokens: Tokens): Credentials {
  const { accessToken, refreshToken = "", raw } = tokens;
  const value = { accessToken, refreshToken, raw, ...expiryOf(tokens) };
  return create(CredentialsSchema, { kind: { case: "oauth2", value } });
}
