import type { JsonObject } from "@bufbuild/protobuf";
import { LRUCache } from "lru-cache";
import type { AuthorizationServer } from "oauth4webapi";
import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import { isObject } from "../../core/dialect/json-fields.ts";
import { filledUrl } from "../../core/outgoing/filled-url.ts";
import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { certificateOf } from "./client-certificates.ts";
import { parseAnswer } from "./token-answer.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { misconfigured, unanswered } from "./token-failure.ts";

/** Metadata that a provider publishes about itself (RFC 8414), used only after the issuer check. */
export interface AuthorizationServers {
  /** Returns undefined if the provider's description has no metadata URL. Rejects with `TokenFailure`. */
  metadataOf(parties: TokenParties, rules: OAuth2Rules): Promise<AuthorizationServer | undefined>;
  /** Returns the location of the keys that sign the provider's id_tokens, and the algorithms; undefined if unknown. */
  keySetOf(parties: TokenParties, rules: OAuth2Rules): Promise<KeySetLocation | undefined>;
  /** Returns the endpoint from the description, or else from the metadata; undefined if neither has the endpoint. */
  endpointOf(parties: TokenParties, rules: OAuth2Rules, name: EndpointName): Promise<string | undefined>;
}

export interface KeySetLocation {
  readonly url: string;
  readonly issuer: string;
  /** Undefined if the metadata lists no algorithms. */
  readonly algorithms: readonly string[] | undefined;
}

/** Each endpoint's URL in a description, and its name in the metadata. */
const endpoints = {
  authorization: {
    described: ({ authorizationUrl }: OAuth2Rules) => authorizationUrl,
    named: "authorization_endpoint",
  },
  token: { described: ({ tokenUrl }: OAuth2Rules) => tokenUrl, named: "token_endpoint" },
  renewal: { described: ({ refreshUrl, tokenUrl }: OAuth2Rules) => refreshUrl || tokenUrl, named: "token_endpoint" },
  revocation: { described: ({ revocationUrl }: OAuth2Rules) => revocationUrl, named: "revocation_endpoint" },
  device: {
    described: ({ deviceAuthorizationUrl }: OAuth2Rules) => deviceAuthorizationUrl,
    named: "device_authorization_endpoint",
  },
  pushed: {
    described: ({ pushedAuthorizationUrl }: OAuth2Rules) => pushedAuthorizationUrl,
    named: "pushed_authorization_request_endpoint",
  },
} as const;

export type EndpointName = keyof typeof endpoints;

/** Cache time of metadata: endpoints rarely change, and a changed key appears in the key set. */
const keptForMs = 3_600_000;
const mostServers = 1_000;

interface MetadataSource {
  readonly send: SendSmallRequest;
  readonly issuer: string;
}

export function createAuthorizationServers(send: SendSmallRequest): AuthorizationServers {
  // Concurrent callers share one fetch; failures are not cached.
  const known = new LRUCache<string, AuthorizationServer, MetadataSource>({
    max: mostServers,
    ttl: keptForMs,
    fetchMethod: (key, _, { context }) => read(key.slice(key.indexOf(" ") + 1), context),
  });
  async function metadataOf(parties: TokenParties, rules: OAuth2Rules): Promise<AuthorizationServer | undefined> {
    if (rules.metadataUrl === "") return undefined;
    const issuer = issuerOf(parties, rules);
    if (issuer === "")
      throw misconfigured("issuer_missing", "the provider's description must name an issuer for its metadata");
    return known.forceFetch(`${issuer} ${filledFor(parties, rules.metadataUrl)}`, { context: { send, issuer } });
  }
  return {
    metadataOf,
    async keySetOf(parties, rules) {
      const issuer = issuerOf(parties, rules);
      if (issuer === "") return undefined;
      const metadata = await metadataOf(parties, rules);
      const url = rules.jwksUrl === "" ? metadata?.jwks_uri : filledFor(parties, rules.jwksUrl);
      const algorithms = metadata?.id_token_signing_alg_values_supported;
      return url === undefined ? undefined : { url, issuer, algorithms };
    },
    async endpointOf(parties, rules, name) {
      const { described, named } = endpoints[name];
      const url = described(rules);
      if (url !== "") return filledFor(parties, url);
      const metadata = await metadataOf(parties, rules);
      // RFC 8705, section 5: a client with a certificate uses the mTLS endpoint alias, if there is one.
      const aliases = certificateOf(parties) === undefined ? undefined : metadata?.mtls_endpoint_aliases;
      return named === "authorization_endpoint" ? metadata?.[named] : (aliases?.[named] ?? metadata?.[named]);
    },
  };
}

async function read(url: string, { send, issuer }: MetadataSource): Promise<AuthorizationServer> {
  const answer = await send({ url, method: "GET", headers: { accept: "application/json" } }).catch((error: unknown) => {
    throw unanswered(error, "the provider's metadata");
  });
  if (answer.status !== 200) {
    const isPassing = answer.status === 429 || answer.status >= 500;
    throw new TokenFailure(
      { kind: isPassing ? "passing" : "misconfigured", code: `metadata_${answer.status}`, retryAfterMs: undefined },
      `the request for the provider's metadata returned status ${answer.status}`,
    );
  }
  const parsed = parseAnswer({ contentType: answer.header("content-type"), body: answer.body });
  if (parsed.is !== "object") throw misconfigured("metadata_unreadable", "the provider's metadata cannot be read");
  // RFC 8414, section 3.3: the issuer must match byte for byte. The library would compare both after `URL`
  // normalization.
  if (parsed.answer["issuer"] !== issuer) {
    throw misconfigured("issuer_mismatch", "the provider's metadata names another issuer");
  }
  const urls = Object.values(endpoints).map(({ named }) => named);
  const aliases = parsed.answer["mtls_endpoint_aliases"];
  return {
    issuer,
    ...Object.fromEntries([...urls, "jwks_uri"].flatMap((name) => urlIn(parsed.answer, name))),
    ...(isObject(aliases)
      ? { mtls_endpoint_aliases: Object.fromEntries(urls.flatMap((name) => urlIn(aliases, name))) }
      : {}),
    ...listIn(parsed.answer, "id_token_signing_alg_values_supported"),
    authorization_response_iss_parameter_supported:
      parsed.answer["authorization_response_iss_parameter_supported"] === true,
  };
}

function urlIn(answer: JsonObject, name: string): [string, string][] {
  const value = answer[name];
  return typeof value === "string" && URL.canParse(value) ? [[name, value]] : [];
}

function listIn(answer: JsonObject, name: string): Readonly<Record<string, string[]>> {
  const value = answer[name];
  return Array.isArray(value) ? { [name]: value.filter((one): one is string => typeof one === "string") } : {};
}

/** Returns the issuer unchanged, unless it is a template that names a field of the connection's configuration. */
export const issuerOf = (parties: TokenParties, { issuer }: OAuth2Rules): string =>
  issuer.includes("${") ? filledFor(parties, issuer) : issuer;

/** Throws `UnboundHost`. */
export const filledFor = ({ provider, integration, connectionConfig }: TokenParties, url: string): string =>
  filledUrl(url, {
    fields: provider.connectionFields,
    config: connectionConfig,
    defaults: integration.connectionDefaults,
  });
