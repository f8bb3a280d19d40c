import { hash } from "node:crypto";
import type { Credentials } from "../../gen/latchkey/v1/credentials_pb.ts";
import type { Integration, IntegrationSecrets } from "../../gen/latchkey/v1/integration_pb.ts";

interface TokenSource {
  readonly credentials: Credentials;
  readonly integration: Pick<Integration, "oauth">;
  readonly secrets: IntegrationSecrets | undefined;
}

/**
 * A hash of the client that obtained the token, for tokens of the integration's own client (RFC 6749, section 4.4).
 * Once the client has another secret, the token must not be used. The hash does not help to guess the secret without
 * the token. Undefined: there is no such token.
 */
export function tokenClient({ credentials: { kind }, integration, secrets }: TokenSource): Uint8Array | undefined {
  if (kind.case !== "oauth2Client" || kind.value.clientId !== "" || kind.value.token === "") return undefined;
  const parts = [kind.value.token, integration.oauth?.clientId, secrets?.clientSecret, secrets?.privateKey];
  // RFC 8705, section 3: the token may be valid only on connections with this certificate.
  const certificate = secrets?.clientCertificate ?? "";
  return hash("sha256", JSON.stringify(certificate === "" ? parts : [...parts, certificate]), "buffer");
}
