import { create } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { discoveredServer } from "../../core/mcp/discovered-server.ts";
import {
  ClientRegistrationSchema,
  type Integration,
  IntegrationSecretsSchema,
  ClientRegistration_Method as Method,
  OAuthAppSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { IntegrationRef } from "../setup/integration-records.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { type ClientChoiceOptions, createClientChoice } from "./client-choice.ts";
import { type ClientMetadata, clientDocumentPath, clientMetadata, mcpCallback } from "./client-document.ts";
import type { DiscoverServer } from "./discovery.ts";
import type { CommitDiscovery } from "./discovery-commit.ts";
import { requireHttps } from "./discovery-requests.ts";
import { discoveredProvider, issuerIn, knownIssuerIn, type McpOwner } from "./mcp-provider.ts";
import type { RegisteredClient } from "./registration.ts";

/** Integrations of MCP servers: made from a URL, and kept in line with what the servers publish. */
export interface McpIntegrations {
  /** Creates an integration of the server at `mcpUrl`. Throws `discovery_failed` or `client_required`. */
  create(integration: Integration, actor: string): Promise<Integration>;
  /** Reads the server's metadata again, and registers a client where one is missing. Throws the same. */
  discover(ref: IntegrationRef, actor: string): Promise<DiscoveredIntegration>;
  /** Returns the metadata document of an integration's client by the name of its provider; undefined: there is none. */
  documentOf(provider: string): Promise<ClientDocument | undefined>;
}

export interface DiscoveredIntegration {
  readonly integration: Integration;
  readonly issuerChanged: boolean;
}

/** RFC draft-ietf-oauth-client-id-metadata-document: the ID is the document's URL. */
export interface ClientDocument extends ClientMetadata {
  readonly client_id: string;
}

export interface McpIntegrationsOptions extends ClientChoiceOptions {
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly discoverServer: DiscoverServer;
  readonly commit: CommitDiscovery;
  /** Marks the connections whose tokens are of a former issuer. */
  readonly noteIssuerChange: (ref: IntegrationRef, provider: Provider) => Promise<void>;
}

export function createMcpIntegrations(options: McpIntegrationsOptions): McpIntegrations {
  const { integrations, providers, discoverServer, commit, callbackUrl, publicUrl, noteIssuerChange, now } = options;

  const clientFor = createClientChoice(options);

  async function requireNew(ref: IntegrationRef): Promise<void> {
    const isThere = await integrations.get(ref).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Fault && error.code === "unknown_provider_config") return false;
        throw error;
      },
    );
    if (isThere) throw new Fault("already_exists", `there is an integration "${ref.key}" already`);
  }

  return {
    async create(wanted, actor) {
      const { environment, key, provider: named } = wanted;
      if (named !== "") throw notBoth();
      await requireNew({ environment, key });
      const { href: url } = requireHttps(wanted.mcpUrl, "the MCP server");
      const owner: McpOwner = { environment, integration: key, url };
      const server = await discoverServer(url, unknownIssuer);
      const own = discoveredProvider(owner, { server, before: undefined, nowMs: now() });
      const draft = withGivenClient({ ...wanted, provider: own.name, callback: mcpCallback }, issuerIn(own));
      const client = await clientFor(draft, server.authorization);
      return integrations.create(client === undefined ? draft : withClient(draft, client), actor, own);
    },
    async discover({ environment, key }, actor) {
      const { value: integration } = await integrations.get({ environment, key });
      const before = providers.lookUp(integration.provider);
      const rules = discoveredServer(before);
      if (before === undefined || rules === undefined) {
        throw new Fault("invalid_body", `the integration "${key}" is not of an MCP server that is discovered`);
      }
      const owner: McpOwner = { environment, integration: key, url: rules.url };
      const server = await discoverServer(owner.url, knownIssuerIn(before)).catch(async (error: unknown) => {
        if (error instanceof Fault) await commit.failure(before.name, error.message);
        throw error;
      });
      const provider = discoveredProvider(owner, { server, before, nowMs: now() });
      const issuerChanged = issuerIn(before) !== "" && issuerIn(provider) !== issuerIn(before);
      const found = await clientFor(integration, server.authorization).catch((error: unknown) =>
        error instanceof Fault ? error : Promise.reject(error),
      );
      const failure = found instanceof Fault ? found : undefined;
      // A changed issuer is stored even without a client: from then on nothing of the former one is sent.
      const after = await commit.result({
        integration,
        provider: failure === undefined ? provider : withFailure(provider, failure.message),
        client: found instanceof Fault ? undefined : found,
        issuerChanged,
        actor,
      });
      if (issuerChanged) await noteIssuerChange({ environment, key }, provider);
      if (failure !== undefined) throw failure;
      return { integration: after, issuerChanged };
    },
    async documentOf(name) {
      const provider = providers.lookUp(name);
      const rules = discoveredServer(provider);
      if (rules === undefined) return undefined;
      const { environment, integration: key } = rules;
      const { value: integration } = await integrations.get({ environment, key });
      const registration = integration.oauth?.registration;
      if (integration.provider !== name || registration?.method !== Method.DOCUMENT) return undefined;
      const redirectUri = await callbackUrl(integration);
      const metadata = clientMetadata({ integration, publicUrl: publicUrl(), redirectUri, authMethod: "none" });
      return { client_id: `${publicUrl()}${clientDocumentPath(name)}`, ...metadata };
    },
  };
}

/** Binds a client that the operator has entered to the issuer. */
export function withGivenClient(integration: Integration, issuer: string): Integration {
  const { oauth } = integration;
  if (oauth === undefined) return integration;
  const { registration: _, ...app } = oauth;
  if (app.clientId === "") return { ...integration, oauth: app };
  const registration = create(ClientRegistrationSchema, { issuer, method: Method.GIVEN });
  return { ...integration, oauth: { ...app, registration } };
}

export function withClient(integration: Integration, client: RegisteredClient): Integration {
  const { clientId, clientSecret, registration } = client;
  const oauth = { ...(integration.oauth ?? create(OAuthAppSchema)), clientId, registration };
  const secrets = { ...(integration.secrets ?? create(IntegrationSecretsSchema)), clientSecret };
  return { ...integration, oauth, secrets };
}

const unknownIssuer = { issuer: "", hasDefaults: false };

const withFailure = (provider: Provider, failure: string): Provider =>
  provider.mcp === undefined ? provider : { ...provider, mcp: { ...provider.mcp, failure: failure.slice(0, 500) } };

const notBoth = () =>
  new Fault("invalid_body", "the integration is not valid", {
    mistakes: [{ path: ["provider"], message: "must be absent with `mcp_url`" }],
  });
