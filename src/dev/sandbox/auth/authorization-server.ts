import type { BehaviourSettings } from "../behaviour.ts";
import { metadataRoutes } from "../metadata.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import { authorizationRoutes } from "./authorization.ts";
import type { SandboxClients } from "./clients.ts";
import { createCodes } from "./codes.ts";
import { createConsent } from "./consent.ts";
import { createDevices } from "./devices.ts";
import { createIdTokens } from "./id-tokens.ts";
import { createOAuth1, type OAuth1 } from "./oauth1.ts";
import { tokenRoutes } from "./token-endpoint.ts";
import { createTokens, type SandboxTokens } from "./tokens.ts";

/** The sandbox's OAuth 2 and OAuth 1 server: its endpoints, and the tokens that they issue. */
export interface AuthorizationServer {
  readonly routes: readonly SandboxRoute[];
  readonly tokens: SandboxTokens;
  readonly oauth1: OAuth1;
  reset(): void;
}

interface AuthorizationServerOptions {
  readonly now: () => number;
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
  readonly clients: SandboxClients;
  readonly seen: SandboxTraffic;
}

export function createAuthorizationServer(options: AuthorizationServerOptions): AuthorizationServer {
  const { now, origin, settings, clients, seen } = options;
  const consent = createConsent({ now, settings });
  const tokens = createTokens({ now, settings, seen });
  const codes = createCodes({ now, seen, revoke: ({ id }) => tokens.revokeGrants((grant) => grant.id === id) });
  const devices = createDevices({ now, origin, settings, clients, consent });
  const idTokens = createIdTokens({ now, origin });
  const oauth1 = createOAuth1({ now, settings, clients, consent, seen });

  return {
    routes: [
      ...authorizationRoutes({ origin, settings, clients, codes, consent }),
      ...tokenRoutes({ settings, clients, codes, devices, tokens, idTokens }),
      ...devices.routes,
      ...metadataRoutes({ origin, settings }),
      ...idTokens.routes,
      ...oauth1.routes,
    ],
    tokens,
    oauth1,
    reset() {
      for (const part of [consent, tokens, codes, devices, oauth1]) part.reset();
    },
  };
}
