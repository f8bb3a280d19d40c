import type { Socket } from "node:net";
import { createContextKey } from "@connectrpc/connect";
import { type PeerCertificate, peerCertificateOf } from "../../broker/identities/peer-certificate.ts";

/** The client of a call, as its connection shows it. */
export interface CallPeer {
  readonly address: string;
  /** Undefined for a call without a connection. */
  readonly socket: Socket | undefined;
  /** Returns the certificate that the client has shown; undefined if it has none. The listener has verified it. */
  certificate(): PeerCertificate | undefined;
}

export const peerKey = createContextKey<CallPeer | undefined>(undefined, { description: "the client" });

export function callPeerOf(socket: Socket | undefined): CallPeer {
  let certificate: PeerCertificate | undefined;
  let isRead = false;
  return {
    address: socket?.remoteAddress ?? "unix",
    socket,
    certificate() {
      // Kept: streams are authorized again, maybe after their connection has closed.
      if (!isRead && socket !== undefined) certificate = peerCertificateOf(socket);
      isRead = true;
      return certificate;
    },
  };
}
