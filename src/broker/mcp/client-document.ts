import { type Integration, Integration_Callback } from "../../gen/latchkey/v1/integration_pb.ts";

/** Public metadata of a client (RFC 7591, section 2), for registrations and for documents. */
export interface ClientMetadata {
  readonly client_name: string;
  readonly client_uri: string;
  readonly redirect_uris: readonly string[];
  readonly grant_types: readonly string[];
  readonly response_types: readonly string[];
  readonly token_endpoint_auth_method: string;
}

interface NamedClient {
  readonly integration: Pick<Integration, "key" | "displayName">;
  readonly publicUrl: string;
  readonly redirectUri: string;
  readonly authMethod: string;
}

export const clientMetadata = ({ integration, publicUrl, redirectUri, authMethod }: NamedClient): ClientMetadata => ({
  client_name: `Latchkey: ${integration.displayName || integration.key}`,
  client_uri: publicUrl,
  redirect_uris: [redirectUri],
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
  token_endpoint_auth_method: authMethod,
});

/** Path of the metadata document of an integration's client, below the public URL. */
export const clientDocumentPath = (provider: string): string => `/oauth/clients/${provider}`;

/** Each MCP integration has a redirect URI of its own: its answers cannot be mixed up with those of others. */
export const mcpCallback = Integration_Callback.BOUND;

/** Authorization servers fetch documents from public addresses, by https. */
export const canServeDocuments = (publicUrl: string): boolean => publicUrl.startsWith("https://");
