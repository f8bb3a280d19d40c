import { Memo } from "../../base/memo.ts";
import type { Connection, ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** A connection with everything needed to use it, and credentials that are valid now. */
export interface LiveConnection {
  readonly connection: Connection;
  readonly integration: Integration;
  /** Secrets of the customer's app at the provider: some credentials sign with them. */
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly slot?: CacheSlot;
  /** The further token that requests carry; undefined: the main one. */
  readonly token?: string;
  /** Digest of the user whose token requests carry; undefined: the connection has credentials of its own. */
  readonly subject?: string;
}

/**
 * The cache slot of a connection, with what was derived from the connection and its credentials. Callers keep the slot
 * to find the connection again. Eviction empties the slot.
 */
export class CacheSlot extends Memo {
  live: LiveConnection | undefined = undefined;

  leave(): void {
    this.live = undefined;
    this.forget();
  }
}

/** A connection with the times that decide when it is refreshed, in milliseconds since 1970. */
export interface TimedConnection extends LiveConnection {
  /** Until when the credentials are valid; infinite: without end. */
  readonly validUntil: number;
  /** From when the credentials are refreshed ahead of their expiry; infinite: never. */
  readonly refreshFrom: number;
}

/** Serves connections that are used in other processes. None of it counts as a use. */
export interface StoredConnections {
  /** Returns a connection as it is stored, even with expired credentials. */
  stored(ref: ConnectionRef): Promise<TimedConnection>;
  /** Refreshes a connection whose credentials expire soon, unless that was done already. */
  refreshSoon(ref: ConnectionRef): Promise<void>;
}

export interface LiveRequest {
  readonly forceRefresh?: boolean;
  /** The further token to use. Rejects with a Fault if the connection has none of this name. */
  readonly token?: string | undefined;
  /** Token of the user that the request acts for. Rejects with a Fault unless the connection needs one. */
  readonly subject?: string | undefined;
}

/** Hands out connections for use. The only place that does. */
export interface Live {
  /**
   * Returns a connection, refreshed first if its credentials have expired. Rejects with a Fault if the refresh fails.
   */
  get(ref: ConnectionRef, options?: LiveRequest): Promise<LiveConnection>;
  /**
   * Returns the cached connection if it is valid, without a promise. `before` is its former slot, usually still
   * current. `token` names a further token.
   */
  peek(ref: ConnectionRef, before?: CacheSlot, token?: string): LiveConnection | undefined;
  /** Called when the provider refused the credentials. Returns their replacement; undefined: there is none. */
  replacementOf(refused: LiveConnection, options?: Pick<LiveRequest, "subject">): Promise<LiveConnection | undefined>;
  close(): void;
}
