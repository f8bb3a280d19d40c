import { deviceGrant, exchangeGrant } from "./auth/token-endpoint.ts";
import type { BehaviourSettings } from "./behaviour.ts";
import { json } from "./call.ts";
import type { SandboxRoute } from "./router.ts";

interface MetadataOptions {
  readonly origin: () => string;
  readonly settings: () => BehaviourSettings;
}

/** Server metadata of RFC 8414, and the same document at the address of OpenID Connect Discovery. */
export function metadataRoutes({ origin, settings }: MetadataOptions): readonly SandboxRoute[] {
  const answer = () => {
    const at = origin();
    const { metadataIssuer, iss } = settings();
    return json({
      issuer: metadataIssuer === "right" ? at : "https://another-issuer.example",
      authorization_endpoint: `${at}/oauth2/auth`,
      token_endpoint: `${at}/oauth2/token`,
      device_authorization_endpoint: `${at}/oauth2/device_authorization`,
      revocation_endpoint: `${at}/oauth2/revoke`,
      userinfo_endpoint: `${at}/oauth2/userinfo`,
      jwks_uri: `${at}/oauth2/jwks`,
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: ["authorization_code", "refresh_token", "client_credentials", deviceGrant, exchangeGrant],
      token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: iss !== "missing",
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      scopes_supported: ["openid", "email", "profile", "offline_access"],
    });
  };
  return ["oauth-authorization-server", "openid-configuration"].map((name) => ({
    method: "GET",
    path: `/.well-known/${name}`,
    endpoint: "metadata",
    answer,
  }));
}
