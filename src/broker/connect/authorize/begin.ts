import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { returnTarget } from "../../../core/return-target.ts";
import { PendingAuthorizationSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { ConnectSession } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import type { OAuth2Rules } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Environments } from "../../setup/environments.ts";
import type { Origins } from "../../setup/origins.ts";
import { filledFor } from "../../tokens/authorization-server.ts";
import { challengeOf } from "../../tokens/pkce.ts";
import type { TokenEndpoint, TokenParties } from "../../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import {
  type AuthorizationContext,
  type AuthorizationContexts,
  configOf,
  defaultsOf,
  scopesOf,
} from "./authorization-context.ts";
import { authorizationParameters, isReserved, withQuery } from "./authorization-request.ts";
import type { FailedAuthorizations } from "./failed-authorizations.ts";
import { isOver, pendingLifetimeMs } from "./pending-authorizations.ts";

/** The start of an authorization at a provider's page. */
export interface AuthorizationStart {
  readonly session: StoredRecordOf<ConnectSession>;
  readonly integration: string;
  /** Fields of the connection's `connection_config`, as the end user filled them in. */
  readonly params: Readonly<Record<string, string>>;
  readonly userScopes: readonly string[];
  /** A value of undefined omits the provider's parameter. */
  readonly authorizationParams: Readonly<Record<string, string | undefined>>;
  /** The listener that waits for the outcome; empty: none. */
  readonly listener: string;
  /** The address to return to afterwards; empty: none. Not validated yet. */
  readonly returnTo: string;
  /** The secret of the browser's cookie. */
  readonly browser: string;
  /** The requested language and theme of the outcome page; empty: the browser's. */
  readonly language: string;
  readonly theme: string;
}

interface StartAuthorizationOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly environments: Environments;
  readonly origins: Pick<Origins, "forReturn">;
  readonly grounds: AuthorizationContexts;
  readonly tokenEndpoint: TokenEndpoint;
  readonly failures: FailedAuthorizations;
  readonly world: World;
}

export type StartAuthorization = (asked: AuthorizationStart) => Promise<{ readonly location: string }>;

/** Limit for one session: only a script begins more often. */
const maxPending = 20;
/** Finished authorizations stay stored for a while: three of their lifetimes fit into a session's. */
const maxLooked = 3 * maxPending;

export function createStartAuthorization(options: StartAuthorizationOptions): StartAuthorization {
  const { store, collections, environments, origins, grounds, tokenEndpoint, failures, world } = options;
  const { pendingAuthorizations } = collections;

  /** The number, by session, of authorizations that passed the limit and are not stored yet. */
  const leaving = new Map<string, number>();

  async function ifFew<T>({ value: { id } }: StoredRecordOf<ConnectSession>, leave: () => Promise<T>): Promise<T> {
    const waiting = await pendingAuthorizations.pageBy("session", { under: [id], limit: maxLooked });
    const now = world.now();
    const before = leaving.get(id) ?? 0;
    if (waiting.filter(({ value }) => !isOver(value, now)).length + before >= maxPending) {
      throw new Fault("too_many_requests", "too many authorizations of this connect session have begun and not ended", {
        retryAfterSeconds: pendingLifetimeMs / 1_000,
      });
    }
    leaving.set(id, before + 1);
    try {
      return await leave();
    } finally {
      const left = (leaving.get(id) ?? 1) - 1;
      if (left === 0) leaving.delete(id);
      else leaving.set(id, left);
    }
  }

  async function begin(asked: AuthorizationStart): Promise<{ readonly location: string }> {
    const ground = await grounds.of(asked.session, asked.integration);
    const { integration, provider, existing } = ground;
    /** Secrets generated during the start. */
    const secrets: string[] = [];
    return sendOff(asked, ground, secrets).catch((error: unknown) =>
      failures.refuse(error, {
        ...{ environment: integration.environment, integration: integration.key, existing: existing?.ref },
        ...{ credentials: provider.auth.case ?? "none", secrets },
      }),
    );
  }

  async function sendOff(
    asked: AuthorizationStart,
    ground: AuthorizationContext,
    secrets: string[],
  ): Promise<{ readonly location: string }> {
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
    const connectionConfig = configOf(ground, asked.params);
    const returnTo = await judged(asked.returnTo, environment);
    const context = await grounds.contextOf(integration);
    const asking = await grounds.askingOf(ground, connectionConfig);
    const common = {
      environment,
      integration: integration.key,
      sessionId: session.value.id,
      ...(session.value.reconnect === undefined ? {} : { reconnect: session.value.reconnect }),
      redirectUri: grounds.redirectUri(context),
      context,
      browserHash: digestOf(asked.browser),
      connectionConfig,
      listener: asked.listener,
      returnTo,
      language: asked.language,
      theme: asked.theme,
      createdAt: timestampFromMs(world.now()),
    };
    const { location, ...pending } =
      auth.case === "oauth1"
        ? await toOAuth1(filledFor(asking, auth.value.authorizationUrl), asking, common.redirectUri)
        : await toOAuth2({ asked, ground, rules: auth.value, asking, redirectUri: common.redirectUri, secrets });
    const after = create(PendingAuthorizationSchema, { ...common, ...pending });
    await store.commit(pendingAuthorizations.change({ before: undefined, after }));
    world.metrics.authorizationsBegun.inc({ credentials: kind ?? "none" });
    return { location };
  }

  async function judged(returnTo: string, environment: string): Promise<string> {
    if (returnTo === "") return "";
    const { allowedOrigins } = await environments.get(environment);
    const target = returnTarget(returnTo, origins.forReturn(returnTo, allowedOrigins));
    if (target !== undefined) return target;
    const message = "must be an address of one of the environment's allowed origins";
    throw new Fault("invalid_query_params", `return_to ${message}`, { mistakes: [{ path: ["return_to"], message }] });
  }

  interface Leaving {
    readonly asked: AuthorizationStart;
    readonly ground: AuthorizationContext;
    readonly rules: OAuth2Rules;
    readonly asking: TokenParties;
    readonly redirectUri: string;
    readonly secrets: string[];
  }

  async function toOAuth2({ asked, ground, rules, asking, redirectUri, secrets }: Leaving) {
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
    secrets.push(...[state, codeVerifier, nonce].filter((one) => one !== ""));
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

  async function pushed(asking: TokenParties, { client_id: clientId = "", ...parameters }: Record<string, string>) {
    const { requestUri } = await tokenEndpoint.push({ ...asking, parameters });
    return { client_id: clientId, request_uri: requestUri };
  }

  async function toOAuth1(authorizationUrl: string, asking: TokenParties, callback: string) {
    const { token, secret } = await tokenEndpoint.requestToken({ ...asking, callback });
    return {
      stateHash: digestOf(token),
      temporaryToken: token,
      temporarySecret: secret,
      scopes: [],
      location: withQuery(authorizationUrl, { oauth_token: token }),
    };
  }

  return (asked) => ifFew(asked.session, () => begin(asked));
}

/** 256 random bits in 43 characters, the minimum length of a PKCE verifier (RFC 7636, section 4.1). */
const unguessable = (): string => randomBytes(32).toString("base64url");
