import type { Socket } from "node:net";

/** Connections of a listener that are no longer HTTP: Node's server does not know them. */
export interface DoorTunnels {
  /** Adds a socket without a tunnel yet. `onClose` is called once the socket has closed. */
  add(socket: Socket, onClose: () => void): void;
  /** The tunnel over the socket is open: `close` ends it with Close frames. */
  open(socket: Socket, close: () => void): void;
  /** Closes each tunnel once no data has passed through it for a second. */
  drain(): void;
  close(): void;
}

/** A tunnel has no end that a drain could wait for: it ends after this long without data. */
const silentTunnelMs = 1_000;

export function createDoorTunnels(): DoorTunnels {
  const closers = new Map<Socket, () => void>();
  return {
    add(socket, onClose) {
      closers.set(socket, () => socket.destroy());
      socket.once("close", () => {
        closers.delete(socket);
        onClose();
      });
    },
    open: (socket, close) => void closers.set(socket, close),
    drain() {
      for (const [socket, close] of closers) socket.removeAllListeners("timeout").setTimeout(silentTunnelMs, close);
    },
    close() {
      for (const close of closers.values()) close();
    },
  };
}
