import type { Socket } from "node:net";
import type { IdleSince } from "./drain-listener.ts";

/**
 * TLS handshakes of a listener that have not ended, by the address of the peer: Node does not say which socket a TLS
 * socket has taken over. Peers of a Unix socket cannot be told apart: only Node's timeout limits their handshakes.
 */
export class PendingHandshakes {
  readonly #pending = new Map<string, { readonly socket: Socket; readonly sinceMs: number }>();

  begun(socket: Socket): void {
    const peer = peerOf(socket);
    if (peer === undefined) return;
    this.#pending.set(peer, { socket, sinceMs: performance.now() });
    socket.once("close", () => {
      if (this.#pending.get(peer)?.socket === socket) this.#pending.delete(peer);
    });
  }

  ended(secure: Socket): void {
    const peer = peerOf(secure);
    if (peer !== undefined) this.#pending.delete(peer);
  }

  close({ openedMs }: IdleSince): void {
    for (const { socket, sinceMs } of this.#pending.values()) if (sinceMs <= openedMs) socket.destroy();
  }
}

function peerOf({ remoteAddress, remotePort, localAddress }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`;
}
