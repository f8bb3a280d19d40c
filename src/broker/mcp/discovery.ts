import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import { type BearerChallenge, bearerChallenge } from "../../core/mcp/challenge.ts";
import {
  canonicalResource,
  coversServer,
  isSameIssuer,
  resourceMetadataUrls,
  serverMetadataUrls,
} from "../../core/mcp/well-known.ts";
import {
  createDiscoveryRequests,
  type DiscoveryRequests,
  discoveryFailed,
  metadataMissing,
  requireHttps,
} from "./discovery-requests.ts";

/** What an MCP server publishes about itself. */
export interface DiscoveredServer {
  readonly url: string;
  /** Resource that tokens are for (RFC 8707). */
  readonly resource: string;
  /** Name for people; empty if the server has none. */
  readonly name: string;
  /** Undefined for a server without authorization. */
  readonly authorization: DiscoveredAuthorization | undefined;
}

/** An authorization server whose metadata are checked. */
export interface DiscoveredAuthorization {
  readonly issuer: string;
  readonly authorizationUrl: string;
  readonly tokenUrl: string;
  /** Empty if there is none, as for the next two. */
  readonly revocationUrl: string;
  readonly pushedUrl: string;
  readonly registrationUrl: string;
  readonly acceptsDocuments: boolean;
  readonly authMethods: readonly string[];
  readonly scopes: readonly string[];
  /** Every authorization response names the issuer (RFC 9207). */
  readonly namesIssuer: boolean;
  /** The server publishes no metadata, and may be none that authorizes. */
  readonly isDefault?: boolean;
}

export type DiscoverServer = (url: string, known: KnownIssuer) => Promise<DiscoveredServer>;

export interface KnownIssuer {
  /** The issuer so far, which is kept while the server still names it; empty: none. */
  readonly issuer: string;
  /** Its endpoints are the default ones: no metadata were found. */
  readonly hasDefaults: boolean;
}

/** Reads the metadata of an MCP server and its authorization server. Throws `discovery_failed`. */
export const createDiscovery =
  (send: SendSmallRequest): DiscoverServer =>
  async (given, known) => {
    const { issuer } = known;
    const server = requireHttps(given, "the MCP server");
    const requests = createDiscoveryRequests(send);
    const challenge = await challengeOf(server, requests);
    const metadata = await resourceMetadata(server, { challenge, requests });
    const base = { url: given, name: textIn(metadata ?? {}, "resource_name") };
    if (challenge === undefined && metadata === undefined) {
      return { ...base, resource: canonicalResource(server), authorization: undefined };
    }
    const resource = metadata === undefined ? canonicalResource(server) : resourceIn(metadata, server);
    const named = issuersIn(metadata, server);
    const found = await authorizationServer(named.includes(issuer) ? [issuer] : named, requests);
    if (found === undefined && metadata === undefined && mayHaveDefaults(known)) {
      return { ...base, resource, authorization: defaultAuthorization(server.origin, challenge?.scopes ?? []) };
    }
    if (found === undefined) throw metadataMissing(named);
    const scopes =
      challenge !== undefined && challenge.scopes.length > 0
        ? challenge.scopes
        : textsIn(metadata ?? {}, "scopes_supported");
    return { ...base, resource, authorization: authorizationOf(found, scopes) };
  };

const jsonOrEvents = { accept: "application/json, text/event-stream", "content-type": "application/json" };

/** Asks without a token. Returns the challenge; undefined if the server answers everyone. */
async function challengeOf(server: URL, requests: DiscoveryRequests): Promise<BearerChallenge | undefined> {
  const statuses: number[] = [];
  for (const { headers, body } of probes) {
    const request = { url: server.href, method: "POST", headers: { ...jsonOrEvents, ...headers }, body };
    const { status, answer } = await requests.send(request, "the MCP server");
    if (status === 401) return bearerChallenge(answer === undefined ? [] : valuesOf(answer.fields, "www-authenticate"));
    if (status >= 200 && status < 300) return undefined;
    if (status >= 500) break;
    statuses.push(status);
  }
  throw discoveryFailed(`it answers neither 401 nor an MCP response (${statuses.join(", ") || "5xx"}); check the URL`);
}

/** The first request of each era of the protocol. */
const probes = [
  {
    headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover" },
    body: rpc("server/discover", {
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "latchkey", version: "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
      },
    }),
  },
  {
    headers: {},
    body: rpc("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "latchkey", version: "1" },
    }),
  },
];

function rpc(method: string, params: JsonObject): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

interface MetadataSearch {
  readonly challenge: BearerChallenge | undefined;
  readonly requests: DiscoveryRequests;
}

/** RFC 9728. A challenge names the metadata; otherwise they are looked for below the server's well-known paths. */
async function resourceMetadata(server: URL, { challenge, requests }: MetadataSearch): Promise<JsonObject | undefined> {
  const what = "the resource metadata";
  if (challenge?.resourceMetadata !== undefined) {
    const found = await requests.document(challenge.resourceMetadata, what);
    if (found === undefined) throw discoveryFailed(`${what} that its challenge names are missing`);
    return found;
  }
  for (const url of resourceMetadataUrls(server)) {
    const found = await requests.document(url, what);
    if (found?.["authorization_servers"] !== undefined) return found;
  }
  return undefined;
}

function resourceIn(metadata: JsonObject, server: URL): string {
  // GitLab sends a list of one.
  const [listed, ...others] = textsIn(metadata, "resource");
  const resource = listed !== undefined && others.length === 0 ? listed : textIn(metadata, "resource");
  if (!coversServer(resource, server)) throw discoveryFailed("its resource metadata are of another resource");
  return resource;
}

function issuersIn(metadata: JsonObject | undefined, server: URL): readonly string[] {
  // Servers older than RFC 9728 are their own authorization server (MCP 2025-03-26).
  if (metadata === undefined) return [server.origin];
  const named = textsIn(metadata, "authorization_servers");
  if (named.length === 0) throw discoveryFailed("its resource metadata name no authorization server");
  return named;
}

/**
 * Endpoints of a server that publishes no metadata at all (MCP 2025-03-26, "Fallbacks for Servers without Metadata
 * Discovery"): it is its own authorization server, below its own origin. Such a server cannot say that it supports PKCE,
 * which this version requires of servers; it is used in any case, and a code or a token reaches no other origin.
 */
const defaultAuthorization = (origin: string, scopes: readonly string[]): DiscoveredAuthorization => ({
  issuer: origin,
  authorizationUrl: `${origin}/authorize`,
  tokenUrl: `${origin}/token`,
  revocationUrl: "",
  pushedUrl: "",
  registrationUrl: `${origin}/register`,
  acceptsDocuments: false,
  authMethods: [],
  scopes,
  namesIssuer: false,
  isDefault: true,
});

/** A server whose metadata were read once, and are missing now, is in trouble: its endpoints stay as they were. */
const mayHaveDefaults = ({ issuer, hasDefaults }: KnownIssuer): boolean => issuer === "" || hasDefaults;

interface FoundServer {
  readonly issuer: string;
  readonly metadata: JsonObject;
}

const maxIssuers = 4;

/** Returns the first authorization server with valid metadata; undefined if none has a document. */
async function authorizationServer(
  issuers: readonly string[],
  requests: DiscoveryRequests,
): Promise<FoundServer | undefined> {
  const what = "the metadata of its authorization server";
  for (const issuer of issuers.slice(0, maxIssuers)) {
    for (const url of serverMetadataUrls(requireHttps(issuer, "its authorization server"))) {
      const metadata = await requests.document(url, what);
      if (metadata === undefined) continue;
      const own = textIn(metadata, "issuer");
      // RFC 8414, section 3.3: metadata of another issuer must not be used.
      if (!isSameIssuer(own, issuer)) throw discoveryFailed(`${what} name another issuer than ${issuer}`);
      return { issuer: own, metadata };
    }
  }
  return undefined;
}

function authorizationOf({ issuer, metadata }: FoundServer, scopes: readonly string[]): DiscoveredAuthorization {
  const url = (name: string, isRequired = false) => {
    const value = textIn(metadata, name);
    if (value === "" && !isRequired) return "";
    requireHttps(value, `\`${name}\` of its authorization server`);
    return value;
  };
  if (!textsIn(metadata, "code_challenge_methods_supported").includes("S256")) {
    throw discoveryFailed(
      "its authorization server does not say that it supports PKCE with S256 (`code_challenge_methods_supported`), which MCP requires",
    );
  }
  const isPushed = metadata["require_pushed_authorization_requests"] === true;
  const all = textsIn(metadata, "scopes_supported").includes("offline_access") ? [...scopes, "offline_access"] : scopes;
  return {
    issuer,
    authorizationUrl: url("authorization_endpoint", true),
    tokenUrl: url("token_endpoint", true),
    revocationUrl: url("revocation_endpoint"),
    pushedUrl: isPushed ? url("pushed_authorization_request_endpoint", true) : "",
    registrationUrl: url("registration_endpoint"),
    acceptsDocuments: metadata["client_id_metadata_document_supported"] === true,
    authMethods: textsIn(metadata, "token_endpoint_auth_methods_supported"),
    scopes: [...new Set(all)],
    namesIssuer: metadata["authorization_response_iss_parameter_supported"] === true,
  };
}

const textIn = (object: JsonObject, name: string): string => {
  const value = object[name];
  return typeof value === "string" && value.length <= 2_048 ? value : "";
};

const maxTexts = 200;

function textsIn(object: JsonObject, name: string): string[] {
  const value: JsonValue | undefined = object[name];
  if (!Array.isArray(value)) return [];
  return value.filter((one): one is string => typeof one === "string" && one.length <= 2_048).slice(0, maxTexts);
}

const valuesOf = (fields: readonly string[], name: string): string[] =>
  fields.filter((_, i) => i % 2 === 1 && fields[i - 1]?.toLowerCase() === name);
