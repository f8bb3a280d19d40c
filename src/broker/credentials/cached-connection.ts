import { timestampMs } from "@bufbuild/protobuf/wkt";
import { credentialsExpireAt, lacksToken } from "../../auth/credential-life.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { UsedThing } from "../stored/last-used.ts";
import { CacheSlot, type LiveConnection } from "./live-connections.ts";

interface LoadedConnection extends LiveConnection {
  /** The time until which the credentials are valid. */
  readonly validUntil: number;
  /** The time from which credentials are refreshed in the background; moved forward by each attempt. */
  readonly refreshFrom: number;
  readonly lastUse: UsedThing;
}

/** A class, so that all entries of the cache have the same shape. */
export class CachedConnection implements LoadedConnection {
  /** Milliseconds since the cache was opened. Until then the entry is valid, and its use is already recorded. */
  sureUntil = 0;
  readonly slot = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly validUntil: number;
  refreshFrom: number;
  readonly lastUse: UsedThing;
  /** The same connection with its further tokens, as far as they were used. */
  named: Map<string, NamedConnection> | undefined = undefined;

  constructor(loaded: LoadedConnection) {
    this.connection = loaded.connection;
    this.integration = loaded.integration;
    this.secrets = loaded.secrets;
    this.provider = loaded.provider;
    this.credentials = loaded.credentials;
    this.validUntil = loaded.validUntil;
    this.refreshFrom = loaded.refreshFrom;
    this.lastUse = loaded.lastUse;
  }

  /** The cache no longer holds the connection. */
  leave(): void {
    this.slot.leave();
    for (const { slot } of this.named?.values() ?? []) slot.leave();
  }
}

/** A connection whose requests carry a further token. */
export class NamedConnection implements LiveConnection {
  readonly slot = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  /** All of them, so that no token appears where one must not. */
  readonly credentials: Credentials;
  readonly token: string;
  readonly validUntil: number;
  refreshFrom: number;

  constructor(
    base: CachedConnection,
    token: string,
    times: { readonly validUntil: number; readonly refreshFrom: number },
  ) {
    this.connection = base.connection;
    this.integration = base.integration;
    this.secrets = base.secrets;
    this.provider = base.provider;
    this.credentials = base.credentials;
    this.token = token;
    this.validUntil = times.validUntil;
    this.refreshFrom = times.refreshFrom;
    if (base.slot.live !== undefined) this.slot.live = this;
  }
}

/** The time until which credentials are valid. Credentials supplied with only a refresh token are due at once. */
export function validUntilMs(credentials: Credentials): number {
  if (lacksToken(credentials)) return 0;
  const expiresAt = credentialsExpireAt(credentials);
  return expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt);
}
