import type { World } from "../base/world.ts";
import type { Integration } from "../gen/latchkey/v1/integration_pb.ts";
import type { Store } from "../store/contract.ts";
import type { Audit } from "./audit.ts";
import { createDepartures, type Departures } from "./authorize-begin.ts";
import { createDeviceAuthorizations, type DeviceAuthorizations } from "./authorize-device.ts";
import { createReturns, type Returns } from "./authorize-finish.ts";
import { createGrounds } from "./authorize-ground.ts";
import { createAuthorizedConnections } from "./authorized-connection.ts";
import type { Collections } from "./collections.ts";
import type { Connections } from "./connections.ts";
import { createDeviceWaits } from "./device-waits.ts";
import type { Environments } from "./environments.ts";
import { createFailedAuthorizations } from "./failed-authorizations.ts";
import { createTakeCredentials, type TakeCredentials } from "./given-credentials.ts";
import type { Imports } from "./imports.ts";
import type { Integrations } from "./integrations.ts";
import type { LiveGrants } from "./live-grants.ts";
import type { Logs } from "./logs.ts";
import type { Origins } from "./origins.ts";
import type { ProviderAsks } from "./provider-asks.ts";
import type { Providers } from "./providers.ts";
import type { ScriptHooks } from "./script-hooks.ts";
import type { Sessions } from "./sessions.ts";
import type { SharedCallbacks } from "./shared-callbacks.ts";
import type { TokenEndpoint } from "./token-endpoint.ts";

/** End users on their way to a provider and back, and what they bring along. */
export interface Authorizations {
  /** Remembers who leaves, and says where to. */
  readonly begin: Departures;
  /**
   * Takes what was remembered, whatever comes of it, and makes the connection. Throws `unknown_authorization` for an
   * answer that belongs to nobody, and nothing else: once it is known whose it is, what came of it is returned.
   */
  readonly finish: Returns;
  /** A connection of credentials that an end user typed in. */
  readonly connect: TakeCredentials;
  /** End users who enter a code elsewhere. */
  readonly devices: DeviceAuthorizations;
  /** What stands in the redirect URI of an integration. */
  readonly callbackUrl: (integration: Integration) => Promise<string>;
  /** Goes on with devices that wait: once it is known which providers there are. */
  resume(): void;
  /** Waits for what is being filed. */
  close(): Promise<void>;
}

interface AuthorizationsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly environments: Environments;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly connections: Connections;
  readonly sessions: Sessions;
  readonly sharedCallbacks: SharedCallbacks;
  readonly origins: Origins;
  readonly imports: Imports;
  readonly tokenEndpoint: TokenEndpoint;
  readonly asks: ProviderAsks;
  readonly grants: LiveGrants;
  readonly hooks: Pick<ScriptHooks, "validate">;
  readonly logs: Logs;
  readonly publicUrl: () => string;
  readonly audit: Audit;
  readonly world: World;
}

export function createAuthorizations(options: AuthorizationsOptions): Authorizations {
  const grounds = createGrounds(options);
  const authorized = createAuthorizedConnections(options);
  const failures = createFailedAuthorizations(options);
  const deviceWaits = createDeviceWaits({ ...options, grounds, authorized, failures });
  return {
    begin: createDepartures({ ...options, grounds, failures }),
    finish: createReturns({ ...options, grounds, authorized, failures }),
    connect: createTakeCredentials({ ...options, grounds, authorized, failures }),
    devices: createDeviceAuthorizations({ ...options, grounds, failures, waits: deviceWaits }),
    resume: () => deviceWaits.resume(),
    close: () => deviceWaits.close(),
    callbackUrl: async (integration) => grounds.redirectUri(await grounds.contextOf(integration)),
  };
}
