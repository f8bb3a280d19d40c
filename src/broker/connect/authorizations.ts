import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { ConnectionCollections } from "../connections/connection-collections.ts";
import type { GrantCount } from "../credentials/grant-count.ts";
import type { SharedServices } from "../deliveries/open.ts";
import type { Origins } from "../setup/origins.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import type { SharedCallbacks } from "../setup/shared-callbacks.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";
import type { TokenEndpoint } from "../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";
import { createAuthorizationContexts } from "./authorize/authorization-context.ts";
import { createAuthorizedConnections } from "./authorize/authorized-connection.ts";
import { createStartAuthorization, type StartAuthorization } from "./authorize/begin.ts";
import { createCompleteAuthorization } from "./authorize/completion.ts";
import { createTakeCredentials, type TakeCredentials } from "./authorize/entered-credentials.ts";
import { createFailedAuthorizations } from "./authorize/failed-authorizations.ts";
import { createFinishAuthorization, type FinishAuthorization } from "./authorize/finish.ts";
import { createPendingClaims } from "./authorize/pending-claims.ts";
import { createProviderPage } from "./authorize/provider-page.ts";
import { type ChoiceRoom, type ChoiceRoomOptions, openChoices } from "./choices/open.ts";
import { createDeviceAuthorizations, type DeviceAuthorizations } from "./devices/device-authorizations.ts";
import { createDeviceWaits } from "./devices/device-waits.ts";
import type { Imports } from "./import/imports.ts";
import type { ConnectSessions } from "./sessions.ts";

/** Authorizations of end users at providers, and by credentials that they enter. */
export interface Authorizations extends ChoiceRoom {
  /** Stores a pending authorization, and returns the provider's address. */
  readonly begin: StartAuthorization;
  /**
   * Takes the pending authorization, whatever the outcome, and makes the connection. Throws `unknown_authorization` if
   * the response matches no pending authorization, and nothing else. Every later outcome is returned.
   */
  readonly finish: FinishAuthorization;
  /** Makes a connection from credentials that an end user entered. */
  readonly connect: TakeCredentials;
  /** Authorizations by a code that end users enter elsewhere. */
  readonly devices: DeviceAuthorizations;
  /** The redirect URI of an integration. */
  readonly callbackUrl: (integration: Integration) => Promise<string>;
  /** Resumes polling for waiting devices. Call once the providers are known. */
  resume(): void;
  /** Waits for connections that are being stored. */
  close(): Promise<void>;
}

interface AuthorizationsOptions
  extends ChoiceRoomOptions,
    Pick<SharedServices, "store" | "environments" | "integrations" | "providers" | "logs" | "audit" | "world"> {
  readonly collections: SetupCollections & ConnectionCollections & AuthorizationCollections;
  readonly sessions: ConnectSessions;
  readonly sharedCallbacks: SharedCallbacks;
  readonly origins: Origins;
  readonly imports: Imports;
  readonly tokenEndpoint: TokenEndpoint;
  readonly grants: GrantCount;
  readonly hooks: Pick<ScriptHooks, "validate">;
  readonly publicUrl: () => string;
}

export function createAuthorizations(options: AuthorizationsOptions): Authorizations {
  const contexts = createAuthorizationContexts(options);
  const { choiceLists, choices, choosePage } = openChoices(options);
  const authorized = createAuthorizedConnections({ ...options, choiceLists });
  const failures = createFailedAuthorizations(options);
  const providerPage = createProviderPage(options.tokenEndpoint);
  const claims = createPendingClaims(options);
  const complete = createCompleteAuthorization({ ...options, contexts, authorized });
  const deviceWaits = createDeviceWaits({ ...options, contexts, authorized, failures });
  return {
    begin: createStartAuthorization({ ...options, contexts, providerPage, failures }),
    finish: createFinishAuthorization({ ...options, claims, complete, choosePage, failures }),
    choices,
    choosePage,
    connect: createTakeCredentials({ ...options, contexts, authorized, failures }),
    devices: createDeviceAuthorizations({ ...options, contexts, failures, waits: deviceWaits }),
    resume: () => deviceWaits.resume(),
    close: () => deviceWaits.close(),
    callbackUrl: async (integration) => contexts.redirectUri(await contexts.redirectContextOf(integration)),
  };
}
