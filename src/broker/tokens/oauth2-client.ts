import { LRUCache } from "lru-cache";
import {
  type AuthorizationServer,
  allowInsecureRequests,
  type Client,
  type ClientAuth,
  customFetch,
} from "oauth4webapi";
import { clientAuthentication } from "../../auth/oauth2/client-authentication.ts";
import type { SendSmallRequest, SmallAnswer } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import type { OAuth2Rules } from "../../gen/latchkey/v1/provider_pb.ts";
import { type AuthorizationServers, type EndpointName, issuerOf } from "./authorization-server.ts";
import { certificateOf } from "./client-certificates.ts";
import type { TokenParties } from "./token-endpoint.ts";
import { misconfigured } from "./token-failure.ts";

/** The two that speak OAuth 2 to each other: a client as it proves itself, and a server at one of its endpoints. */
export interface Party {
  readonly rules: OAuth2Rules;
  readonly server: AuthorizationServer;
  readonly client: Client;
  readonly authentication: ClientAuth;
  /** Its secrets, so that none of them is repeated. */
  readonly secrets: readonly string[];
  /** By the provider's clock, as far as it is known to differ from ours. */
  readonly nowMs: () => number;
  /** Takes the provider's clock for right. False: it does not differ enough to be why anything was refused. */
  learnClock(answer: SmallAnswer): boolean;
  /** What the library sends goes our own way; the answer is handed to `heard`, whatever the library makes of it. */
  transport(options: TransportOptions): Transport;
}

interface TransportOptions {
  readonly format: string;
  readonly signal: AbortSignal | undefined;
  readonly deadlineMs: number;
  readonly mayFollow?: boolean | undefined;
  readonly heard: (answer: SmallAnswer, sentAtMs: number) => void;
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
  partyOf(asking: TokenParties, rules: OAuth2Rules, endpoint: EndpointName): Promise<Party>;
}

interface PartiesOptions {
  readonly send: SendSmallRequest;
  readonly servers: AuthorizationServers;
  readonly world: World;
}

/** A clock that is off by less than this is not why an assertion was refused: both sides round, and answers take time. */
const tellingSkewMs = 10_000;
/** Whoever is an hour off has other troubles; and a proof must not be good for ever because a header says so. */
const mostSkewMs = 3_600_000;

export function createParties({ send, servers, world }: PartiesOptions): Parties {
  /** By endpoint, how far the provider's clock is ahead of ours. */
  const skews = new LRUCache<string, number>({ max: 1_000 });

  return {
    async partyOf(asking, rules, endpoint) {
      const { integration, secrets, client: own } = asking;
      const id = own?.id ?? integration.oauth?.clientId ?? "";
      if (id === "") throw misconfigured("client_id_missing", "the integration has no client id");
      const url = await servers.endpointOf(asking, rules, endpoint);
      if (url === undefined) throw misconfigured(`${endpoint}_url_missing`, "the provider has no such endpoint");
      const nowMs = () => world.now() + (skews.get(url) ?? 0);
      const client = {
        id,
        secret: own === undefined ? (secrets?.clientSecret ?? "") : own.secret,
        privateKey: own?.privateKey ?? secrets?.privateKey ?? "",
      };
      const certificate = certificateOf(asking);
      const authentication = clientAuthentication({
        method: rules.tokenEndpointAuthMethod,
        client,
        hasCertificate: certificate !== undefined,
        nowMs,
      });
      return {
        rules,
        server: serverAt(url, endpoint, issuerOf(asking, rules)),
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
        transport: ({ format, signal, deadlineMs, mayFollow = false, heard }) => ({
          // Where a request may go in the open is judged where it is sent.
          [allowInsecureRequests]: true,
          async [customFetch](url, { method, headers, body }) {
            const isJson = format === "json" && body instanceof URLSearchParams;
            const sentAtMs = world.now();
            const answer = await send(
              {
                url,
                method,
                headers: isJson ? { ...headers, "content-type": "application/json" } : headers,
                body: isJson ? JSON.stringify(Object.fromEntries(body)) : body === undefined ? undefined : String(body),
                clientCertificate: certificate,
                mayFollow,
              },
              { signal, deadlineMs },
            );
            heard(answer, sentAtMs);
            return handedBack(answer);
          },
        }),
      };
    },
  };
}

/**
 * The library hands it back as it is, and looks at nothing but the nonce for the next proof (RFC 9449, section 8). What
 * there is else has been read by ourselves.
 */
function handedBack({ header }: SmallAnswer): Response {
  const nonce = header("dpop-nonce");
  return nonce === undefined ? nothingToRead : new Response(null, { headers: { "dpop-nonce": nonce } });
}

const nothingToRead = new Response(null);

/** To the library, an endpoint for tokens is one wherever it is. */
const serverAt = (url: string, endpoint: EndpointName, issuer: string): AuthorizationServer => ({
  // What an assertion is made out to: the issuer, and where nobody knows that, exactly the endpoint it goes to.
  issuer: issuer === "" ? url : issuer,
  ...(endpoint === "token" || endpoint === "renewal" ? { token_endpoint: url } : {}),
  ...(endpoint === "revocation" ? { revocation_endpoint: url } : {}),
  ...(endpoint === "device" ? { device_authorization_endpoint: url } : {}),
  ...(endpoint === "pushed" ? { pushed_authorization_request_endpoint: url } : {}),
});
