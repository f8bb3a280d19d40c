import type { JsonObject } from "@bufbuild/protobuf";
import type { Tokens } from "../auth/tokens.ts";
import type { Integration, IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../gen/latchkey/v1/provider_pb.ts";

/** Asks a provider for tokens. The only thing that sends a client's secret or a refresh token anywhere. */
export interface TokenEndpoint {
  /** One request, or two where the protocol wants it (DPoP nonces). Rejects with `TokenFailure`. */
  ask(request: TokenRequest): Promise<Tokens>;
}

export interface TokenRequest {
  readonly provider: Provider;
  readonly integration: Integration;
  readonly secrets: IntegrationSecrets | undefined;
  /** This connection's own OAuth app, in place of the integration's. */
  readonly client?: OwnClient | undefined;
  /** For templates in the provider's addresses. */
  readonly connectionConfig: JsonObject;
  readonly grant: Grant;
  readonly signal?: AbortSignal | undefined;
}

export interface OwnClient {
  readonly id: string;
  readonly secret: string;
  /** PEM, where the client authenticates by mutual TLS. */
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
}

export type Grant =
  | {
      readonly type: "authorization_code";
      readonly code: string;
      readonly redirectUri: string;
      /** Undefined for a provider that cannot do PKCE. */
      readonly codeVerifier: string | undefined;
    }
  | { readonly type: "refresh_token"; readonly refreshToken: string }
  | { readonly type: "client_credentials"; readonly scopes: readonly string[] }
  | { readonly type: "device_code"; readonly deviceCode: string }
  /** RFC 8693. */
  | { readonly type: "token_exchange"; readonly subjectToken: string; readonly subjectTokenType: string }
  /** Facebook's family: a token that still lives is exchanged for one that lives longer. */
  | { readonly type: "renewal"; readonly accessToken: string }
  /** What `TokenRules` describe: an app's or a two-step's own request, filled in with the connection's fields. */
  | { readonly type: "described"; readonly fields: Readonly<Record<string, string>> };
