import type { JsonObject } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ClientOverride } from "../gen/latchkey/v1/credentials_pb.ts";
import type { Tokens } from "./oauth2/tokens.ts";

/** The request that refreshes credentials. */
export interface TokenRefresh {
  readonly grant: RefreshGrant;
  /** The connection's own OAuth client, in place of the integration's. */
  readonly client: RefreshClient | undefined;
  readonly dpopKey: string | undefined;
  /** The token that the refresh uses up, or what represents it. Distinguishes one attempt from another. */
  readonly spent: string;
  /** The name of the further token that is refreshed; undefined: the main one. */
  readonly further?: string;
}

export type RefreshGrant =
  | { readonly type: "refresh_token"; readonly refreshToken: string }
  | { readonly type: "client_credentials"; readonly scopes: readonly string[] }
  | { readonly type: "renewal"; readonly accessToken: string }
  | { readonly type: "described"; readonly fields: JsonObject };

export interface RefreshClient {
  readonly id: string;
  readonly secret: string;
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
}

/** Returns the connection's own OAuth client; undefined if it has none. */
export const ownClient = (own: ClientOverride | undefined): RefreshClient | undefined =>
  own === undefined || own.clientId === "" ? undefined : { id: own.clientId, secret: own.clientSecret };

/** A request that the provider's rules describe, filled with these fields. */
export const describedRefresh = (fields: JsonObject, spent: string): TokenRefresh => ({
  client: undefined,
  dpopKey: undefined,
  grant: { type: "described", fields },
  spent,
});

/** The expiry of new tokens, as a field of credentials; none if the response does not state it. */
export const expiryOf = ({ expiresAtMs }: Pick<Tokens, "expiresAtMs">): { expiresAt?: Timestamp } =>
  expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };
