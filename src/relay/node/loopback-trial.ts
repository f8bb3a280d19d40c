import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A connection of our own, from both of its ends. */
export interface SocketPair {
  readonly server: Server;
  readonly caller: Socket;
  /** Accepted a moment ago: nobody has listened to it yet. */
  readonly accepted: Socket;
  /** To be gone at the end, too. */
  noted<S extends Socket>(socket: S): S;
}

const trialMs = 2_000;

/** Whether something holds that Node does not document, tried before anybody relies on it. What fails or takes too long does not. */
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
    // Whatever becomes of it, the time runs out.
    caller.on("error", () => {});
    const accepted = noted(await acceptedFrom(server, caller));
    return trial({ server, caller, accepted, noted });
  };
  const late = sleep(trialMs, false, { ref: false });
  return Promise.race([tried().catch(() => false), late]).finally(() => {
    // However it ended, nothing of it is left.
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

/** The connection of this caller's: anybody may come to a port. */
function acceptedFrom(server: Server, caller: Socket): Promise<Socket> {
  return new Promise((resolve) => {
    server.on("connection", (accepted) => {
      if (accepted.remotePort === caller.localPort) resolve(accepted);
      else accepted.destroy();
    });
  });
}
