import { requireCertificate } from "../client-certificate.ts";
import { withoutRefreshTokenIn } from "../hidden-tokens.ts";
import { place, placedNames } from "../placement.ts";
import type { AuthScheme, CredentialsOf } from "../scheme.ts";
import { expiryOf, type RefreshClient } from "../token-refresh.ts";
import { boundToken, dpopHeaderNames } from "./dpop.ts";
import { hasOAuth2Endpoint } from "./token-endpoint.ts";

/** The application's own access token: a bearer token (RFC 6750), or bound to a key (RFC 9449). */
export const oauth2Client: AuthScheme<"oauth2Client"> = {
  attach({ credentials, rules }) {
    const { token, dpopKey, clientCertificate: certificate, clientPrivateKey: privateKey } = credentials;
    const attachment =
      dpopKey === ""
        ? place({ what: "the access token", value: token }, rules.placement)
        : boundToken({ token, key: dpopKey });
    if (certificate === "" || privateKey === "") return attachment;
    // RFC 8705, section 3: a token obtained with a certificate may be valid only on connections with the certificate.
    return { ...attachment, clientCertificate: requireCertificate({ certificate, privateKey }) };
  },
  names: ({ placement, dpop }) => (dpop ? { headers: dpopHeaderNames, query: [] } : placedNames(placement)),
  expiresAt: ({ expiresAt }) => expiresAt,
  lacksToken: ({ token }) => token === "",
  issuedWith: ({ raw }) => raw,
  canRefresh: () => true,
  hasTokenEndpoint: hasOAuth2Endpoint,
  refresh(credentials, { scopes }) {
    const { token, dpopKey } = credentials;
    const grant = { type: "client_credentials", scopes } as const;
    return { client: clientOf(credentials), dpopKey: dpopKey || undefined, grant, spent: token };
  },
  refreshed({ expiresAt: _, ...kept }, tokens) {
    // A new token without a key is bound to none: providers refuse a bearer token that comes with a DPoP proof.
    const { accessToken: token, raw, dpopKey = "" } = tokens;
    return { ...kept, token, raw, dpopKey, ...expiryOf(tokens) };
  },
  withoutRefreshToken: (credentials) => ({ ...credentials, ...withoutRefreshTokenIn(credentials, "") }),
  dpopKeyOf: ({ dpopKey }) => dpopKey,
  withoutDpopKey: (credentials) => ({ ...credentials, dpopKey: "" }),
  // The token may be bound to the certificate.
  forRequests: ({ raw: _, ...kept }) => ({ ...kept, clientSecret: "" }),
};

/** The connection's own client; undefined if it uses the integration's. */
function clientOf(credentials: CredentialsOf<"oauth2Client">): RefreshClient | undefined {
  const { clientId: id, clientSecret: secret, clientCertificate, clientPrivateKey } = credentials;
  if (id === "") return undefined;
  return { id, secret, certificate: clientCertificate || undefined, privateKey: clientPrivateKey || undefined };
}
