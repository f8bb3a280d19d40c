import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { createContextKey } from "@connectrpc/connect";
import { alternativeNamesOf } from "../../base/http/certificate-names.ts";
import type { EdgeCertificate } from "../../broker/identities/identities.ts";

/** The client of a call, as its connection shows it. */
export interface CallPeer {
  readonly address: string;
  /** Returns the certificate that the client has shown; undefined if it has none. The listener has verified it. */
  certificate(): EdgeCertificate | undefined;
}

export const peerKey = createContextKey<CallPeer | undefined>(undefined, { description: "the client" });

export function callPeerOf(socket: Socket | undefined): CallPeer {
  let certificate: EdgeCertificate | undefined;
  let isRead = false;
  return {
    address: socket?.remoteAddress ?? "unix",
    certificate() {
      // Kept: streams are authorized again, maybe after their connection has closed.
      if (!isRead) certificate = certificateOf((socket ?? {}) as Partial<TLSSocket>);
      isRead = true;
      return certificate;
    },
  };
}

function certificateOf(socket: Partial<TLSSocket>): EdgeCertificate | undefined {
  if (socket.authorized !== true) return undefined;
  const shown = socket.getPeerCertificate?.();
  const { subject, subjectaltname = "", valid_to } = shown ?? {};
  if (subject === undefined || valid_to === undefined) return undefined;
  const { CN } = subject as { readonly CN?: string | readonly string[] };
  // Several common names identify no single client.
  const common = typeof CN === "string" ? [`CN:${CN}`] : [];
  return { names: [...alternativeNamesOf(subjectaltname), ...common], endsAtMs: Date.parse(valid_to) };
}
