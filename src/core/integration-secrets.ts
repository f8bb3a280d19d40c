import { requireCertificate } from "../auth/client-certificate.ts";
import { CannotAttach } from "../auth/scheme.ts";
import type { Mistake } from "../base/fault.ts";
import type { IntegrationSecrets } from "../gen/latchkey/v1/integration_pb.ts";

/** Checks an integration's secrets beyond their schema. Never quotes a secret. */
export function checkIntegrationSecrets(
  secrets: Pick<IntegrationSecrets, "clientCertificate" | "clientPrivateKey"> | undefined,
): Mistake[] {
  const { clientCertificate: certificate = "", clientPrivateKey: privateKey = "" } = secrets ?? {};
  if (certificate === "" && privateKey === "") return [];
  const mistake = (name: string, message: string) => [{ path: ["secrets", name], message }];
  if (certificate === "") return mistake("client_certificate", "must be set together with client_private_key");
  if (privateKey === "") return mistake("client_private_key", "must be set together with client_certificate");
  try {
    requireCertificate({ certificate, privateKey });
    return [];
  } catch (error) {
    if (!(error instanceof CannotAttach)) throw error;
    return mistake("client_certificate", error.message);
  }
}
