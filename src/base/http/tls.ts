import { X509Certificate } from "node:crypto";
import type { SecureContextOptions, TLSSocket, TlsOptions } from "node:tls";
import type { ListenerTls } from "./listener.ts";

/** A client must complete its handshake within this time; Node would wait two minutes. */
const handshakeMs = 10_000;

/** TLS 1.2 and later; with a client CA, nobody comes in without a certificate that it signed. */
export const tlsServerOptions = ({ cert, key, clientCa }: ListenerTls): TlsOptions & SecureContextOptions => ({
  cert,
  key,
  minVersion: "TLSv1.2",
  handshakeTimeout: handshakeMs,
  ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
});

/** Until when callers believe the door: of a chain, its own certificate stands first. */
export const certificateEndMs = ({ cert }: ListenerTls): number => Date.parse(new X509Certificate(cert).validTo);

/** A certificate of the right CA that was issued to somebody else opens nothing. */
export function requireClientName(socket: TLSSocket, { clientNames }: ListenerTls): void {
  if (clientNames === undefined) return;
  const { subjectaltname = "" } = socket.getPeerCertificate();
  const names = subjectaltname.split(", ");
  if (!names.some((name) => clientNames.includes(name))) socket.destroy();
}
