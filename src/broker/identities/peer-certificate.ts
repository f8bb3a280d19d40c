import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { alternativeNamesOf } from "../../base/http/certificate-names.ts";

/** A client certificate that the listener has verified against its authorities. */
export interface PeerCertificate {
  /** `URI:…` and `DNS:…` of its alternative names, and `CN:…` of its subject. */
  readonly names: readonly string[];
  readonly endsAtMs: number;
}

/** Returns the certificate that the client of a connection has shown; undefined if there is none, or an unverified one. */
export function peerCertificateOf(connection: Socket): PeerCertificate | undefined {
  const socket = connection as Partial<TLSSocket>;
  if (socket.authorized !== true) return undefined;
  const shown = socket.getPeerCertificate?.();
  const { subject, subjectaltname = "", valid_to } = shown ?? {};
  if (subject === undefined || valid_to === undefined) return undefined;
  const { CN } = subject as { readonly CN?: string | readonly string[] };
  // Several common names identify no single client.
  const common = typeof CN === "string" ? [`CN:${CN}`] : [];
  return { names: [...alternativeNamesOf(subjectaltname), ...common], endsAtMs: Date.parse(valid_to) };
}
