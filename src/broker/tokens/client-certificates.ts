import { requireCertificate } from "../../auth/client-certificate.ts";
import type { IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";
import type { TokenParties } from "./token-endpoint.ts";

/** What is shown to a provider when a connection to it is made, PEM. */
type ClientCertificatePem = ReturnType<typeof requireCertificate>;

/** The certificate of the customer's, for whatever has none of its own. Throws `CannotAttach`. */
export function integrationCertificate(secrets: IntegrationSecrets | undefined): ClientCertificatePem | undefined {
  const { clientCertificate: certificate = "", clientPrivateKey: privateKey = "" } = secrets ?? {};
  return certificate === "" ? undefined : requireCertificate({ certificate, privateKey });
}

/** Of a client that asks for tokens: the connection's own, else the integration's (RFC 8705, section 2). */
export function certificateOf({
  client: own,
  secrets,
}: Pick<TokenParties, "client" | "secrets">): ClientCertificatePem | undefined {
  const { certificate = "", privateKey = "" } = own ?? {};
  return certificate === "" ? integrationCertificate(secrets) : requireCertificate({ certificate, privateKey });
}
