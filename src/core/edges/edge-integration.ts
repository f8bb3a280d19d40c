import { create, toJsonString } from "@bufbuild/protobuf";
import {
  type Integration,
  IntegrationSchema,
  type IntegrationSecrets,
  IntegrationSecretsSchema,
} from "../../gen/latchkey/v1/integration_pb.ts";
import { type Provider, ProviderSchema } from "../../gen/latchkey/v1/provider_pb.ts";

/** Returns an integration as edges get it: what requests depend on. */
export function edgeIntegration(integration: Integration): Integration {
  const { environment, key, provider, oauth, hosts, reflection, connectionDefaults } = integration;
  return create(IntegrationSchema, {
    environment,
    key,
    provider,
    hosts,
    reflection,
    connectionDefaults,
    settings: integration.settings,
    useRecord: integration.useRecord,
    keepSetCookie: integration.keepSetCookie,
    ...(oauth && { oauth: { clientId: oauth.clientId } }),
  });
}

/**
 * Returns the secrets of an integration that its requests carry or are signed with; undefined if they need none. The
 * client secret of OAuth 2 is never among them: only token requests contain it.
 */
export function edgeSecrets(
  secrets: IntegrationSecrets | undefined,
  { auth, proxy }: Provider,
): IntegrationSecrets | undefined {
  if (secrets === undefined) return undefined;
  const needed = create(IntegrationSecretsSchema, {
    // Requests may need the certificate, whatever else proves who sends them.
    clientCertificate: secrets.clientCertificate,
    clientPrivateKey: secrets.clientPrivateKey,
  });
  if (auth.case === "oauth1" || auth.case === "tba") {
    needed.clientSecret = secrets.clientSecret;
    needed.privateKey = secrets.privateKey;
  }
  if (auth.case === "jwt" && auth.value.jwt !== undefined && auth.value.jwt.keyField === "") {
    needed.privateKey = secrets.privateKey;
  }
  const templates = [...Object.values(proxy?.headers ?? {}), ...Object.values(proxy?.query ?? {})].join("\n");
  for (const [name, value] of Object.entries(secrets.settings)) {
    if (templates.includes(`\${integration.${name}}`)) needed.settings[name] = value;
  }
  const isEmpty = toJsonString(IntegrationSecretsSchema, needed) === "{}";
  return isEmpty ? undefined : needed;
}

/** Returns a provider as edges get it: the rules of requests, without those of anything else. */
export function edgeProvider(provider: Provider): Provider {
  const { name, displayName, auth, proxy, connectionFields, integrationSettings, quota, choices, mcp } = provider;
  return create(ProviderSchema, {
    name,
    displayName,
    auth,
    connectionFields,
    integrationSettings,
    choices,
    ...(proxy && { proxy }),
    ...(quota && { quota }),
    // Without the rest, which each discovery changes.
    ...(mcp && { mcp: { url: mcp.url } }),
  });
}
