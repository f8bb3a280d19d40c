import { X509Certificate } from "node:crypto";
import type { SecureContextOptions, TLSSocket, TlsOptions } from "node:tls";
import { alternativeNamesOf } from "./certificate-names.ts";
import type { ListenerTls } from "./listener.ts";

/** A client must complete its handshake within this time; Node would wait two minutes. */
const handshakeMs = 10_000;

/**
 * TLS 1.2 and later. With a client CA, clients without a certificate of this CA are refused. Where the certificate is
 * optional, OpenSSL lets every client in, and `requireClientName` refuses wrong certificates.
 */
export const tlsServerOptions = (listener: ListenerTls): TlsOptions & SecureContextOptions => {
  const { cert, key, clientCa, isClientOptional = false } = listener;
  const client = { ca: clientCa, requestCert: true, rejectUnauthorized: !isClientOptional };
  return {
    cert,
    key,
    minVersion: "TLSv1.2",
    handshakeTimeout: handshakeMs,
    ...(clientCa === undefined ? {} : client),
  };
};

/** Returns when the certificate expires. In a chain, the server's own certificate comes first. */
export const certificateEndMs = ({ cert }: ListenerTls): number => Date.parse(new X509Certificate(cert).validTo);

/** Refuses a certificate of another CA, and one of the right CA that was issued to another client. */
export function requireClientName(socket: TLSSocket, listener: ListenerTls): void {
  const { clientCa, clientNames, isClientOptional = false } = listener;
  if (clientCa === undefined) return;
  if (isClientOptional && socket.getPeerX509Certificate() === undefined) return;
  if (!socket.authorized) socket.destroy();
  if (clientNames === undefined) return;
  const { subjectaltname = "" } = socket.getPeerCertificate();
  if (!alternativeNamesOf(subjectaltname).some((name) => clientNames.includes(name))) socket.destroy();
}
