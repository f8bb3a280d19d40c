import { statedLifetimeMs } from "../../auth/credential-life.ts";
import { tokenRefreshOf } from "../../auth/credential-refresh.ts";
import { isOfFormerIssuer } from "../../auth/oauth2/token-issuer.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type ConnectionCollections, connectionTouchKey } from "../connections/connection-collections.ts";
import type { Connections } from "../connections/connections.ts";
import { issuerChanged } from "../connections/health/connection-health.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { touchedBy } from "../stored/last-used.ts";
import { CachedConnection, validUntilMs } from "./cached-connection.ts";
import { reauthorize } from "./refresh/refresh-faults.ts";
import { longestAheadMs, refreshAheadMs } from "./refresh-ahead.ts";
import { tokenClient } from "./token-client.ts";

interface ConnectionLoaderOptions {
  readonly collections: Pick<ConnectionCollections, "refreshes">;
  readonly connections: Connections;
  readonly integrations: Integrations;
  readonly providers: Providers;
}

/** Reads a connection from the store with everything needed to use it. Rejects with a Fault if it does not exist. */
export type LoadConnection = (ref: ConnectionRef) => Promise<CachedConnection>;

export function createConnectionLoader(options: ConnectionLoaderOptions): LoadConnection {
  const { collections, connections, integrations, providers } = options;

  /** Whether the integration's client has changed since the token was obtained, for example its secret. */
  async function hasOtherClient(ref: ConnectionRef, obtained: Parameters<typeof tokenClient>[0]): Promise<boolean> {
    const now = tokenClient(obtained);
    const then = now && (await collections.refreshes.get(ref.environment, ref.integration, ref.id))?.value.tokenClient;
    return now !== undefined && then !== undefined && then.length > 0 && Buffer.compare(now, then) !== 0;
  }

  return async (ref) => {
    const at = { environment: ref.environment, key: ref.integration };
    const [{ value: connection }, { integration, secrets }, credentials] = await Promise.all([
      connections.get(ref),
      integrations.inUse(at),
      connections.credentialsOf(ref),
    ]);
    if (credentials === undefined) {
      // If the connection was deleted between the two reads, this throws. Missing credentials otherwise are a bug.
      await connections.get(ref);
      throw new Error("a connection has no credentials");
    }
    const provider = await providers.findNow(connection.provider);
    if (isOfFormerIssuer(credentials, provider)) throw reauthorize(ref, issuerChanged);
    const isOfFormerClient = await hasOtherClient(ref, { credentials, integration, secrets });
    const validUntil = isOfFormerClient ? 0 : validUntilMs(credentials);
    const isRenewable = tokenRefreshOf({ credentials, provider, integration }) !== undefined;
    return new CachedConnection({
      connection,
      integration,
      secrets,
      provider,
      credentials,
      validUntil,
      refreshFrom:
        isRenewable && Number.isFinite(validUntil)
          ? refreshAheadMs({
              expiresAtMs: validUntil,
              lifeMs: statedLifetimeMs(credentials),
              longestMs: longestAheadMs(provider),
              jitter: Math.random(),
            })
          : Number.POSITIVE_INFINITY,
      lastUse: touchedBy(connectionTouchKey(ref.environment, ref.integration, ref.id)),
    });
  };
}
