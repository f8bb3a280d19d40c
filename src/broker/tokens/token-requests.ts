import { TokenFailure } from "../../auth/oauth2/tokens.ts";
import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { World } from "../../base/world.ts";
import { createAuthorizationServers, issuerOf } from "./authorization-server.ts";
import { askDescribed } from "./custom-grants.ts";
import { createIdTokens } from "./id-tokens.ts";
import { provenInstallation } from "./installation-proof.ts";
import { createOAuth1Legs } from "./oauth1-requests.ts";
import { createParties } from "./oauth2-client.ts";
import { createOAuth2Requests } from "./oauth2-requests.ts";
import { askOAuth2, oauth2RulesOf } from "./oauth2-tokens.ts";
import type { TokenEndpoint } from "./token-endpoint.ts";
import { unanswered } from "./token-failure.ts";

interface TokenEndpointOptions {
  readonly send: SendSmallRequest;
  readonly world: World;
}

export function createTokenEndpoint({ send, world }: TokenEndpointOptions): TokenEndpoint {
  const servers = createAuthorizationServers(send);
  const parties = createParties({ send, servers, world });
  const requests = createOAuth2Requests({ parties, servers, world });
  const legs = createOAuth1Legs({ send, world });
  const idTokens = createIdTokens({ send, servers, world });
  const { tokenRequests, tokenSeconds } = world.metrics;

  /** Counts every request by its outcome, and converts errors to one form. */
  async function counted<T>(grant: string, ask: () => Promise<T>): Promise<T> {
    const since = performance.now();
    let outcome = "ok";
    try {
      return await ask();
    } catch (thrown) {
      const error = unanswered(thrown, "the provider");
      outcome = error instanceof TokenFailure ? error.kind : "defect";
      throw error;
    } finally {
      tokenRequests.inc({ grant, outcome });
      tokenSeconds.observe({ grant }, (performance.now() - since) / 1_000);
    }
  }

  return {
    ask: (request) =>
      counted(request.grant.type, () => {
        const { grant } = request;
        return grant.type === "described"
          ? askDescribed({ ...request, grant }, { send, world })
          : askOAuth2({ ...request, grant }, { parties, idTokens, send, world });
      }),
    async authorization(request) {
      try {
        const rules = oauth2RulesOf(request);
        const pushedUrl = await servers.endpointOf(request, rules, "pushed");
        const metadata = await servers.metadataOf(request, rules);
        return {
          url: (await servers.endpointOf(request, rules, "authorization")) ?? "",
          pushedUrl: pushedUrl ?? "",
          issuer: issuerOf(request, rules),
          issuerAlways: rules.issuerAlways || metadata?.authorization_response_iss_parameter_supported === true,
        };
      } catch (thrown) {
        throw unanswered(thrown, "the provider");
      }
    },
    push: (request) => counted("pushed_request", () => requests.push(request)),
    beginDevice: (request) => counted("device_authorization", () => requests.beginDevice(request)),
    installation: (request) => counted("installation_proof", () => provenInstallation(request, { send, world })),
    revoke: (request) => counted("revocation", () => requests.revoke(request)),
    requestToken: (request) => counted("oauth1_request_token", () => legs.requestToken(request)),
    accessToken: (request) => counted("oauth1_access_token", () => legs.accessToken(request)),
  };
}
