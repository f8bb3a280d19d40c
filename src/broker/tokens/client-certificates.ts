import { requireCertificate } from "../../auth/client-certificate.ts";
import type { IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { TokenParties } from "./token-endpoint.ts";

/** Client certificate and key (PEM) for connections to a provider. */
type ClientCertificatePem = ReturnType<typeof requireCertificate>;

/** Returns the customer's certificate, for a client without its own. Throws `CannotAttach`. */
export function integrationCertificate(secrets: IntegrationSecrets | undefined): ClientCertificatePem | undefined {
  const { clientCertificate: certificate = "", clientPrivateKey: privateKey = "" } = secrets ?? {};
  return certificate === "" ? undefined : requireCertificate({ certificate, privateKey });
}

/**
 * Returns the certificate of a token request: the connection's own, or else the integration's (RFC 8705, section 2).
 */
export function certificateOf({
  client: own,
  secrets,
}: Pick<TokenParties, "client" | "secrets">): ClientCertificatePem | undefined {
  const { certificate = "", privateKey = "" } = own ?? {};
  return certificate === "" ? integrationCertificate(secrets) : requireCertificate({ certificate, privateKey });
}
