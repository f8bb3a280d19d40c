import { timestampMs } from "@bufbuild/protobuf/wkt";
import { furtherTokenOf } from "../auth/oauth2/further-tokens.ts";
import { CacheSlot, type LiveConnection } from "../broker/credentials/live-connections.ts";
import type { Connection, ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { Credentials } from "../gen/latchkey/v1/credentials_pb.ts";
import type { EdgeLiveConnection } from "../gen/latchkey/v1/edge_pb.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** An integration in memory. */
export interface HeldIntegration {
  readonly version: Uint8Array;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
}

/** What a connection in memory is made of. */
export interface HeldParts {
  readonly ref: ConnectionRef;
  readonly version: Uint8Array;
  readonly state: EdgeLiveConnection;
  readonly connection: Connection;
  readonly credentials: Credentials;
  readonly integration: HeldIntegration;
  readonly provider: Provider;
  /** How far the broker's clock is ahead of ours. */
  readonly aheadMs: number;
}

/** A connection in memory. A class, so that all of them have the same shape on the fast path. */
export class HeldConnection implements LiveConnection {
  /** Milliseconds since the start. Until then the connection is valid, and its use is already noted. */
  sureUntil = 0;
  /** When its use was last noted. */
  usedAt = 0;
  readonly slot = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly parts: HeldParts;
  readonly validUntil: number;
  readonly #named = new Map<string, NamedHeldConnection>();

  constructor(parts: HeldParts) {
    this.connection = parts.connection;
    this.integration = parts.integration.integration;
    this.secrets = parts.integration.secrets;
    this.provider = parts.provider;
    this.credentials = parts.credentials;
    this.parts = parts;
    this.validUntil = endOf(parts.state.validUntil, parts.aheadMs);
    this.slot.live = this;
  }

  /** Returns the connection with a further token; undefined if it has none of this name. */
  named(token: string): NamedHeldConnection | undefined {
    const known = this.#named.get(token);
    if (known !== undefined) return known;
    const named = furtherTokenOf(this.credentials, token);
    if (named === undefined) return undefined;
    const { state, aheadMs } = this.parts;
    const validUntil = named.accessToken === "" ? 0 : endOf(state.tokensValidUntil[token], aheadMs);
    const made = new NamedHeldConnection(this, token, validUntil);
    this.#named.set(token, made);
    return made;
  }

  /** The memory no longer holds the connection. */
  leave(): void {
    this.slot.leave();
    for (const { slot } of this.#named.values()) slot.leave();
  }
}

/** A connection whose requests carry a further token. */
export class NamedHeldConnection implements LiveConnection {
  readonly slot = new CacheSlot();
  readonly connection: Connection;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  readonly provider: Provider;
  readonly credentials: Credentials;
  readonly token: string;
  readonly base: HeldConnection;
  readonly validUntil: number;

  constructor(base: HeldConnection, token: string, validUntil: number) {
    this.connection = base.connection;
    this.integration = base.integration;
    this.secrets = base.secrets;
    this.provider = base.provider;
    this.credentials = base.credentials;
    this.token = token;
    this.base = base;
    this.validUntil = validUntil;
    if (base.slot.live !== undefined) this.slot.live = this;
  }
}

/** Returns an end by our own clock. */
const endOf = (end: EdgeLiveConnection["validUntil"], aheadMs: number): number =>
  end === undefined ? Number.POSITIVE_INFINITY : timestampMs(end) - aheadMs;
