import { durationMs } from "@bufbuild/protobuf/wkt";
import {
  type AuthorizationServer,
  allowInsecureRequests,
  type Client,
  type ClientAuth,
  customFetch,
} from "oauth4webapi";
import { clientAuthentication } from "../../auth/oauth2/client-authentication.ts";
import { fillText } from "../../auth/template.ts";
import { createLateCache } from "../../base/caches/late-cache.ts";
import type { SendSmallRequest, SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { discoveredServer } from "../../core/mcp/discovered-server.ts";
import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type AuthorizationServers, type EndpointName, issuerOf } from "./authorization-server.ts";
import { certificateOf } from "./client-certificates.ts";
import { mcpAuthMethod, requireOwnIssuer } from "./client-issuer.ts";
import { integrationTexts } from "./integration-texts.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { misconfigured } from "./token-failure.ts";
import { type ParameterForm, writtenRequest } from "./written-parameters.ts";

/**
 * Client and server of an OAuth 2 request: the client with its authentication, the server with one of its endpoints.
 */
export interface Party {
  readonly rules: OAuth2Rules;
  readonly server: AuthorizationServer;
  readonly client: Client;
  readonly authentication: ClientAuth;
  /** Secrets of the client, which must never be repeated in errors. */
  readonly secrets: readonly string[];
  /** Current time by the provider's clock, as far as its difference from ours is known. */
  readonly nowMs: () => number;
  /** Adopts the provider's clock. Returns false if the difference is too small to explain a rejection. */
  learnClock(answer: SmallAnswer): boolean;
  /**
   * Routes the library's requests through our own client; `onResponse` gets the response, also one that the library rejects.
   */
  transport(options: TransportOptions): Transport;
}

interface TransportOptions {
  readonly form: ParameterForm;
  readonly signal: AbortSignal | undefined;
  readonly deadlineMs: number;
  readonly mayFollow?: boolean | undefined;
  readonly onResponse: (answer: SmallAnswer, sentAtMs: number) => void;
}

interface Transport {
  readonly [allowInsecureRequests]: true;
  readonly [customFetch]: (url: string, options: TokenHttpRequest) => Promise<Response>;
}

interface TokenHttpRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export interface Parties {
  /** Throws `CannotAttach`, `UnboundHost` or `TokenFailure`. */
  partyOf(parties: TokenParties, rules: OAuth2Rules, endpoint: EndpointName): Promise<Party>;
}

interface PartiesOptions {
  readonly send: SendSmallRequest;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

/** Minimum clock difference that can explain a rejected assertion: both sides round, and responses take time. */
const tellingSkewMs = 10_000;
/**
 * Maximum clock difference that is adopted: a clock that is further off has other problems, and a header must not make
 * a proof valid forever.
 */
const mostSkewMs = 3_600_000;

export function createParties({ send, servers, world }: PartiesOptions): Parties {
  /** Lead of the provider's clock over ours, by endpoint. */
  const skews = createLateCache<number>({ max: 1_000 });

  return {
    async partyOf(parties, rules, endpoint) {
      const { provider, integration, secrets, client: own } = parties;
      requireOwnIssuer(parties);
      const id = own?.id ?? integration.oauth?.clientId ?? "";
      if (id === "") throw misconfigured("client_id_missing", "the integration has no client id");
      const url = await servers.endpointOf(parties, rules, endpoint);
      if (url === undefined) throw misconfigured(`${endpoint}_url_missing`, "the provider has no such endpoint");
      const nowMs = () => world.now() + (skews.get(url) ?? 0);
      const discovered = discoveredServer(provider);
      const client = {
        id,
        secret: own === undefined ? (secrets?.clientSecret ?? "") : own.secret,
        privateKey: own?.privateKey ?? secrets?.privateKey ?? "",
      };
      const certificate = certificateOf(parties);
      const authentication = clientAuthentication({
        method: discovered === undefined ? rules.tokenEndpointAuthMethod : mcpAuthMethod(discovered, parties),
        client,
        hasCertificate: certificate !== undefined,
        nowMs,
        assertion: assertionOf(parties, rules),
      });
      return {
        rules,
        server: serverAt(url, endpoint, issuerOf(parties, rules)),
        client: { client_id: id },
        authentication,
        secrets: [client.secret],
        nowMs,
        learnClock(answer) {
          const theirs = Date.parse(answer.header("date") ?? "");
          const skew = theirs - world.now();
          const known = skews.get(url) ?? 0;
          if (Number.isNaN(skew) || Math.abs(skew) > mostSkewMs || Math.abs(skew - known) < tellingSkewMs) return false;
          skews.set(url, skew);
          return true;
        },
        transport: ({ form, signal, deadlineMs, mayFollow = false, onResponse }) => ({
          // The sender of the request decides where plain HTTP is allowed.
          [allowInsecureRequests]: true,
          async [customFetch](url, { method, headers, body }) {
            const sentAtMs = world.now();
            const written = writtenRequest({ url, method, headers, body }, form);
            const answer = await send(
              { ...written, clientCertificate: certificate, mayFollow },
              { signal, deadlineMs },
            );
            onResponse(answer, sentAtMs);
            return handedBack(answer);
          },
        }),
      };
    },
  };
}

/** Returns how the provider's client assertions differ; undefined: not at all. */
function assertionOf(parties: TokenParties, { clientAssertion }: OAuth2Rules) {
  if (clientAssertion === undefined) return undefined;
  const { audience, lifetime, header } = clientAssertion;
  const values = { integration: integrationTexts(parties) };
  return {
    audience,
    lifetimeMs: lifetime === undefined ? undefined : durationMs(lifetime),
    header: Object.fromEntries(Object.entries(header).map(([name, text]) => [name, fillText(text, values)])),
  };
}

/**
 * Returns a response for the library, which returns it as is and reads only the nonce for the next proof (RFC 9449,
 * section 8). Our own code has read everything else.
 */
function handedBack({ header }: SmallAnswer): Response {
  const nonce = header("dpop-nonce");
  if (nonce !== undefined) return new Response(null, { headers: { "dpop-nonce": nonce } });
  nothingToRead ??= new Response(null);
  return nothingToRead;
}

/** Made with the first answer: `Response` loads Node's whole fetch client, which takes 4 % of a start. */
let nothingToRead: Response | undefined;

/** Describes an endpoint to the library, for which every token endpoint is the same, wherever it is. */
const serverAt = (url: string, endpoint: EndpointName, issuer: string): AuthorizationServer => ({
  // The audience of an assertion: the issuer, or if unknown, exactly the endpoint that gets the assertion.
  issuer: issuer === "" ? url : issuer,
  ...(endpoint === "token" || endpoint === "renewal" ? { token_endpoint: url } : {}),
  ...(endpoint === "revocation" ? { revocation_endpoint: url } : {}),
  ...(endpoint === "device" ? { device_authorization_endpoint: url } : {}),
  ...(endpoint === "pushed" ? { pushed_authorization_request_endpoint: url } : {}),
});
