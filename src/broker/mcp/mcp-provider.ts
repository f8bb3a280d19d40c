import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { McpRulesSchema, type Provider, ProviderSchema } from "../../gen/latchkey/v1/provider_pb.ts";
import type { DiscoveredAuthorization, DiscoveredServer, KnownIssuer } from "./discovery.ts";

/** The integration that a description belongs to. */
export interface McpOwner {
  readonly environment: string;
  readonly integration: string;
  readonly url: string;
}

/** The name is derived from URL and owner: another URL is another provider, which gets no token of this one. */
export function mcpProviderName({ environment, integration, url }: McpOwner): string {
  const digest = createHash("sha256").update(`${environment}\0${integration}\0${url}`).digest("hex").slice(0, 12);
  const host = new URL(url).hostname.replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-+|-+$/g, "");
  return `mcp-${host.slice(0, 40).replace(/-$/, "")}-${digest}`;
}

/** Returns the description of a server that was not discovered yet. Accounts cannot connect to it yet. */
export function undiscoveredProvider(owner: McpOwner, nowMs: number): Provider {
  const now = timestampFromMs(nowMs);
  return create(ProviderSchema, {
    ...shared(owner),
    auth: { case: "oauth2", value: {} },
    mcp: create(McpRulesSchema, { ...rulesOf(owner), resource: owner.url }),
    createdAt: now,
    updatedAt: now,
  });
}

interface Discovery {
  readonly server: DiscoveredServer;
  readonly before: Provider | undefined;
  readonly nowMs: number;
}

/** Describes a discovered server as a provider: the rest of Latchkey needs to know nothing else. */
export function discoveredProvider(owner: McpOwner, { server, before, nowMs }: Discovery): Provider {
  const { authorization, resource, name } = server;
  const now = timestampFromMs(nowMs);
  return create(ProviderSchema, {
    ...shared(owner),
    displayName: (name || new URL(owner.url).host).slice(0, 200),
    auth:
      authorization === undefined
        ? { case: "none", value: {} }
        : { case: "oauth2", value: rulesFor(authorization, resource) },
    mcp: create(McpRulesSchema, {
      ...rulesOf(owner),
      resource,
      registrationUrl: authorization?.registrationUrl ?? "",
      clientDocuments: authorization?.acceptsDocuments === true,
      authMethods: [...(authorization?.authMethods ?? [])],
      defaultEndpoints: authorization?.isDefault === true,
      discoveredAt: now,
      triedAt: now,
    }),
    createdAt: before?.createdAt ?? now,
    updatedAt: now,
  });
}

const shared = (owner: McpOwner) => ({
  name: mcpProviderName(owner),
  displayName: new URL(owner.url).host.slice(0, 200),
  categories: ["mcp"],
  proxy: { baseUrl: new URL(owner.url).origin },
  custom: true,
});

const rulesOf = ({ environment, integration, url }: McpOwner) => ({ url, environment, integration });

/** RFC 8707: all three requests name the resource. */
const rulesFor = (authorization: DiscoveredAuthorization, resource: string) => ({
  authorizationUrl: authorization.authorizationUrl,
  tokenUrl: authorization.tokenUrl,
  revocationUrl: authorization.revocationUrl,
  pushedAuthorizationUrl: authorization.pushedUrl,
  issuer: authorization.issuer,
  issuerAlways: authorization.namesIssuer,
  defaultScopes: [...authorization.scopes],
  authorizationParams: { resource },
  tokenParams: { resource },
  refreshParams: { resource },
});

/** The issuer of a described server; empty if it is not known, or if the server has no authorization. */
export const issuerIn = ({ auth }: Provider): string => (auth.case === "oauth2" ? auth.value.issuer : "");

/** The same, with whether its endpoints are the default ones. */
export const knownIssuerIn = (provider: Provider): KnownIssuer => ({
  issuer: issuerIn(provider),
  hasDefaults: provider.mcp?.defaultEndpoints === true,
});
