import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import { hasCallback } from "../../../core/callback-address.ts";
import { returnTarget } from "../../../core/return-target.ts";
import { PendingAuthorizationSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../../store/contract.ts";
import type { Environments } from "../../setup/environments.ts";
import type { Origins } from "../../setup/origins.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import type { StoredSession } from "../sessions.ts";
import { type AuthorizationContext, type AuthorizationContexts, configOf } from "./authorization-context.ts";
import type { FailedAuthorizations } from "./failed-authorizations.ts";
import { createPendingLimit } from "./pending-limit.ts";
import type { ProviderPage } from "./provider-page.ts";

/** The start of an authorization at a provider's page. */
export interface AuthorizationStart {
  readonly session: StoredSession;
  readonly sessionToken: string;
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

/** Whether more follows the exchange of the code, which is then used up. */
const hasSteps = ({ auth }: Provider): boolean =>
  auth.case === "app" || (auth.case === "oauth2" && auth.value.exchanges.length > 0);

interface StartAuthorizationOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly environments: Environments;
  readonly origins: Pick<Origins, "forReturn">;
  readonly contexts: AuthorizationContexts;
  readonly providerPage: ProviderPage;
  readonly failures: FailedAuthorizations;
  readonly world: World;
}

export type StartAuthorization = (start: AuthorizationStart) => Promise<{ readonly location: string }>;

export function createStartAuthorization(options: StartAuthorizationOptions): StartAuthorization {
  const { store, collections, environments, origins, contexts, providerPage, failures, world } = options;
  const { pendingAuthorizations } = collections;
  const pendingLimit = createPendingLimit({ collections, now: world.now });

  async function begin(start: AuthorizationStart): Promise<{ readonly location: string }> {
    const context = await contexts.of(start.session, start.integration);
    const { integration, provider, existing } = context;
    /** Secrets generated during the start. */
    const secrets: string[] = [];
    return sendToProvider(start, context, secrets).catch((error: unknown) =>
      failures.refuse(error, {
        environment: integration.environment,
        integration: integration.key,
        existing: existing?.ref,
        credentials: provider.auth.case ?? "none",
        secrets,
      }),
    );
  }

  async function sendToProvider(
    start: AuthorizationStart,
    context: AuthorizationContext,
    secrets: string[],
  ): Promise<{ readonly location: string }> {
    const { session, integration, provider } = context;
    const { environment } = integration;
    const kind = provider.auth.case;
    if (!hasCallback(provider)) {
      throw new Fault(
        "invalid_query_params",
        `the integration "${integration.key}" has no page at the provider: enter or import its credentials`,
      );
    }
    if ((integration.oauth?.clientId ?? "") === "") {
      throw new Fault("integration_misconfigured", `the integration "${integration.key}" has no client id yet`);
    }
    const connectionConfig = configOf(context, start.params);
    const returnTo = await allowedTarget(start.returnTo, environment);
    const redirectContext = await contexts.redirectContextOf(integration);
    const redirectUri = contexts.redirectUri(redirectContext);
    const parties = await contexts.partiesOf(context, connectionConfig);
    const { userScopes, authorizationParams } = start;
    const page = { context, parties, redirectUri, userScopes, authorizationParams, secrets };
    const { location, ...prepared } = await providerPage.prepare(page);
    const after = create(PendingAuthorizationSchema, {
      environment,
      integration: integration.key,
      sessionId: session.value.id,
      sessionToken: start.sessionToken,
      ...(session.value.reconnect === undefined ? {} : { reconnect: session.value.reconnect }),
      redirectUri,
      context: redirectContext,
      browserHash: digestOf(start.browser),
      connectionConfig,
      listener: start.listener,
      returnTo,
      language: start.language,
      theme: start.theme,
      createdAt: timestampFromMs(world.now()),
      hasSteps: hasSteps(provider),
      ...prepared,
    });
    await store.commit(pendingAuthorizations.change({ before: undefined, after }));
    world.metrics.authorizationsBegun.inc({ credentials: kind ?? "none" });
    return { location };
  }

  /** Returns the address to return to, if one is named. Throws if the environment does not allow its origin. */
  async function allowedTarget(returnTo: string, environment: string): Promise<string> {
    if (returnTo === "") return "";
    const { allowedOrigins } = await environments.get(environment);
    const target = returnTarget(returnTo, origins.forReturn(returnTo, allowedOrigins));
    if (target !== undefined) return target;
    const message = "must be an address of one of the environment's allowed origins";
    throw new Fault("invalid_query_params", `return_to ${message}`, { mistakes: [{ path: ["return_to"], message }] });
  }

  return (start) => pendingLimit.withRoom(start.session, () => begin(start));
}
