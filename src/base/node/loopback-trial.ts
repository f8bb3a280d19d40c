import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** Both ends of a connection over loopback. */
export interface SocketPair {
  readonly server: Server;
  readonly caller: Socket;
  /** Accepted a moment ago; without listeners yet. */
  readonly accepted: Socket;
  /** Destroys this socket at the end of the trial, too. */
  noted<S extends Socket>(socket: S): S;
}

const trialMs = 2_000;

/**
 * Tests undocumented behavior of Node before any code relies on it. A trial that fails or takes too long returns
 * false.
 */
export async function tryOnLoopback(trial: (pair: SocketPair) => Promise<boolean>): Promise<boolean> {
  const server = createServer({ allowHalfOpen: true });
  const sockets = new Set<Socket>();
  const noted = <S extends Socket>(socket: S): S => {
    sockets.add(socket);
    return socket;
  };
  const tried = async () => {
    await once(server.listen({ port: 0, host: "127.0.0.1" }), "listening");
    const address = server.address();
    const caller = noted(connect({ port: typeof address === "object" ? (address?.port ?? 0) : 0, host: "127.0.0.1" }));
    // Ignored: after an error the trial times out.
    caller.on("error", () => {});
    const accepted = noted(await acceptedFrom(server, caller));
    return trial({ server, caller, accepted, noted });
  };
  const late = sleep(trialMs, false, { ref: false });
  return Promise.race([tried().catch(() => false), late]).finally(() => {
    // Close everything, whatever the result.
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

/** Returns the accepted connection of this caller: any process may connect to a port. */
function acceptedFrom(server: Server, caller: Socket): Promise<Socket> {
  return new Promise((resolve) => {
    server.on("connection", (accepted) => {
      if (accepted.remotePort === caller.localPort) resolve(accepted);
      else accepted.destroy();
    });
  });
}
