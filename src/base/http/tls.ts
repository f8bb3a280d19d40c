import { X509Certificate } from "node:crypto";
import type { SecureContextOptions, TLSSocket, TlsOptions } from "node:tls";
import type { ListenerTls } from "./listener.ts";

/** A client must complete its handshake within this time; Node would wait two minutes. */
const handshakeMs = 10_000;

/** TLS 1.2 and later. With a client CA, clients without a certificate of this CA are refused. */
export const tlsServerOptions = ({ cert, key, clientCa }: ListenerTls): TlsOptions & SecureContextOptions => ({
  cert,
  key,
  minVersion: "TLSv1.2",
  handshakeTimeout: handshakeMs,
  ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
});

/** Returns when the certificate expires. In a chain, the server's own certificate comes first. */
export const certificateEndMs = ({ cert }: ListenerTls): number => Date.parse(new X509Certificate(cert).validTo);

/** Refuses a certificate of the right CA that was issued to another client. */
export function requireClientName(socket: TLSSocket, { clientNames }: ListenerTls): void {
  if (clientNames === undefined) return;
  const { subjectaltname = "" } = socket.getPeerCertificate();
  const names = subjectaltname.split(", ");
  if (!names.some((name) => clientNames.includes(name))) socket.destroy();
}
