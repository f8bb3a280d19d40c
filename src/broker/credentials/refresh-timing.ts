import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Tokens } from "../../auth/oauth2/tokens.ts";
import { assertNever } from "../../base/assert-never.ts";
import type { ClientOverride, Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";

/** The request that refreshes credentials. */
export interface Renewal {
  readonly grant: RenewalGrant;
  /** The connection's own OAuth client, in place of the integration's. */
  readonly client: RenewalClient | undefined;
  readonly dpopKey: string | undefined;
  /** The token that the refresh uses up, or what represents it. Distinguishes one attempt from another. */
  readonly spent: string;
}

export type RenewalGrant =
  | { readonly type: "refresh_token"; readonly refreshToken: string }
  | { readonly type: "client_credentials"; readonly scopes: readonly string[] }
  | { readonly type: "renewal"; readonly accessToken: string }
  | { readonly type: "described"; readonly fields: JsonObject };

export interface RenewalClient {
  readonly id: string;
  readonly secret: string;
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
}

interface RefreshableCredentials {
  readonly credentials: Credentials;
  readonly provider: Provider;
  readonly integration: Pick<Integration, "oauth">;
}

/** Undefined if there is no token endpoint, or nothing to refresh the credentials with. */
export function renewalOf(asked: RefreshableCredentials): Renewal | undefined {
  return hasTokenEndpoint(asked.provider) ? grantOf(asked) : undefined;
}

function hasTokenEndpoint({ auth }: Provider): boolean {
  switch (auth.case) {
    case "oauth2":
    case "oauth2Client":
      return auth.value.tokenUrl !== "" || auth.value.refreshUrl !== "" || auth.value.metadataUrl !== "";
    case "app":
    case "twoStep":
    case "signature":
      return auth.value.tokenUrl !== "";
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "jwt":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return false;
    default:
      return assertNever(auth);
  }
}

function grantOf({ credentials: { kind }, provider, integration }: RefreshableCredentials): Renewal | undefined {
  const plain = { client: undefined, dpopKey: undefined };
  switch (kind.case) {
    case "oauth2": {
      const { accessToken, refreshToken, configOverride, dpopKey } = kind.value;
      const client = clientOf(configOverride);
      const bound = { client, dpopKey: dpopKey || undefined };
      const isExchanged = provider.auth.case === "oauth2" && provider.auth.value.renewal?.accessToken === true;
      if (isExchanged && accessToken !== "") {
        return { ...bound, grant: { type: "renewal", accessToken }, spent: accessToken };
      }
      if (refreshToken === "") return undefined;
      return { ...bound, grant: { type: "refresh_token", refreshToken }, spent: refreshToken };
    }
    case "oauth2Client": {
      const { clientId, clientSecret, clientCertificate, clientPrivateKey, token, dpopKey } = kind.value;
      const client =
        clientId === ""
          ? undefined
          : {
              id: clientId,
              secret: clientSecret,
              certificate: clientCertificate === "" ? undefined : clientCertificate,
              privateKey: clientPrivateKey === "" ? undefined : clientPrivateKey,
            };
      const scopes = integration.oauth?.scopes ?? [];
      return { client, dpopKey: dpopKey || undefined, grant: { type: "client_credentials", scopes }, spent: token };
    }
    case "twoStep": {
      const { fields, refreshToken, token } = kind.value;
      if (fields === undefined || Object.keys(fields).length === 0) return undefined;
      const all = refreshToken === "" ? fields : { ...fields, refreshToken };
      return { ...plain, grant: { type: "described", fields: all }, spent: refreshToken || token };
    }
    case "app": {
      const { appId, installationId, privateKey, accessToken } = kind.value;
      const fields = { app_id: appId, installation_id: installationId, private_key: privateKey };
      return { ...plain, grant: { type: "described", fields }, spent: accessToken };
    }
    case "signature": {
      const { username, password, token } = kind.value;
      return { ...plain, grant: { type: "described", fields: { username, password } }, spent: token };
    }
    // A JWT is minted for each use, so its expiry does not matter.
    case "jwt":
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return undefined;
    default:
      return assertNever(kind);
  }
}

function clientOf(own: ClientOverride | undefined): RenewalClient | undefined {
  return own === undefined || own.clientId === "" ? undefined : { id: own.clientId, secret: own.clientSecret };
}

/** The refreshed credentials. Values that the response does not name stay as they were. */
export function renewed({ kind }: Credentials, tokens: Tokens): Credentials["kind"] {
  const { accessToken, refreshToken, expiresAtMs, raw, dpopKey } = tokens;
  const expiresAt = expiresAtMs === undefined ? {} : { expiresAt: timestampFromMs(expiresAtMs) };
  // Empty if the new token is not bound to a key: providers refuse a bearer token that comes with a DPoP proof.
  const boundTo = dpopKey ?? "";
  switch (kind.case) {
    case "oauth2": {
      const { expiresAt: _, ...kept } = kind.value;
      const changed = {
        accessToken,
        raw,
        refreshToken: refreshToken ?? kept.refreshToken,
        dpopKey: boundTo,
      };
      return { case: kind.case, value: { ...kept, ...changed, ...expiresAt } };
    }
    case "oauth2Client": {
      const { expiresAt: _, ...kept } = kind.value;
      return { case: kind.case, value: { ...kept, token: accessToken, raw, dpopKey: boundTo, ...expiresAt } };
    }
    case "app": {
      const { expiresAt: _, ...kept } = kind.value;
      return { case: kind.case, value: { ...kept, accessToken, raw, ...expiresAt } };
    }
    case "twoStep": {
      const { expiresAt: _, ...kept } = kind.value;
      const changed = { token: accessToken, raw, refreshToken: refreshToken ?? kept.refreshToken };
      return { case: kind.case, value: { ...kept, ...changed, ...expiresAt } };
    }
    case "signature": {
      const { expiresAt: _, ...kept } = kind.value;
      return { case: kind.case, value: { ...kept, token: accessToken, ...expiresAt } };
    }
    case "jwt":
    case "oauth1":
    case "apiKey":
    case "basic":
    case "tba":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      throw new Error(`credentials of the kind ${kind.case ?? "none"} are not renewed`);
    default:
      return assertNever(kind);
  }
}

/**
 * Refresh a tenth of the lifetime before the expiry, at most an hour: outages of providers and networks last that long.
 */
const aheadShare = 0.1;
const maxAheadMs = 3_600_000;
/** Assumed lifetime of a token if the provider states none. */
const usualLifeMs = 3_600_000;

interface TokenLifetime {
  readonly expiresAtMs: number;
  /** The full lifetime when the token was issued; undefined: not known. */
  readonly lifeMs: number | undefined;
  /** At least 0 and at most 1: spreads the refreshes of tokens that were issued together. */
  readonly jitter: number;
}

/** The time from which to refresh in the background, so that no caller waits. */
export function renewAheadMs({ expiresAtMs, lifeMs = usualLifeMs, jitter }: TokenLifetime): number {
  const aheadMs = Math.min(maxAheadMs, lifeMs * aheadShare);
  return expiresAtMs - aheadMs * (1 - jitter / 2);
}

/** The token's lifetime as the provider stated when it issued the token. */
export function lifeMsOf({ kind }: Credentials): number | undefined {
  const seconds = Number(rawAnswerIn(kind)?.["expires_in"]);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined;
}

/**
 * The response of a token endpoint whose `expires_in` can be trusted. For other kinds, a description says where the
 * lifetime is.
 */
function rawAnswerIn(kind: Credentials["kind"]): JsonObject | undefined {
  switch (kind.case) {
    case "oauth2":
    case "oauth2Client":
    case "app":
      return kind.value.raw;
    case "oauth1":
    case "twoStep":
    case "jwt":
    case "signature":
    case "apiKey":
    case "basic":
    case "tba":
    case "awsSigv4":
    case "clientCertificate":
    case "none":
    case undefined:
      return undefined;
    default:
      return assertNever(kind);
  }
}
