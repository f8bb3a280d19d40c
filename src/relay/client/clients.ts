import type { Socket } from "node:net";
import type { IdleSince } from "../../base/http/drain-listener.ts";
import { onBeat } from "../../base/loop/beat.ts";
import { finishTick } from "../batching.ts";
import { ClientConnection } from "./client-connection.ts";
import type { ClientConnectionOwner } from "./client-connection-owner.ts";

/** The client connections of a listener, as long as all their requests were ordinary. */
export interface Clients {
  open(socket: Socket): void;
  /** From now on every response that begins closes its connection. */
  leave(): void;
  /** Closes connections that have had no request since then. */
  closeIdle(since: IdleSince): void;
  destroy(): void;
}

type ClientsOptions = Pick<ClientConnectionOwner<ClientConnection>, "take" | "refuse"> & {
  readonly handOver: (socket: Socket, isHttp1: boolean) => void;
};

/** A scan of all connections replaces a timer each. */
const sweepEveryMs = 1_000;

export function createClients({ take, handOver, refuse }: ClientsOptions): Clients {
  const connections = new Set<ClientConnection>();
  /** Read once a second; exact from a stop on, when it decides which new connection is still to be read. */
  let beatMs = performance.now();
  const owner = {
    take,
    refuse,
    handOver(connection: ClientConnection, socket: Socket, isHttp1: boolean) {
      connections.delete(connection);
      handOver(socket, isHttp1);
    },
    closed: (connection: ClientConnection) => void connections.delete(connection),
    isLeaving: false,
    get nowMs() {
      return owner.isLeaving ? performance.now() : beatMs;
    },
  };
  /** Bytes that arrived while the process was frozen are read before the connection can be found too late. */
  const stopSweeping = onBeat(sweepEveryMs, () => {
    beatMs = performance.now();
    setImmediate(sweep);
  });

  function sweep(): void {
    finishTick();
    for (const connection of connections) connection.sweep(beatMs);
  }

  return {
    open: (socket) => void connections.add(new ClientConnection(socket, owner)),
    leave() {
      owner.isLeaving = true;
    },
    closeIdle({ openedMs, answeredMs }) {
      finishTick();
      for (const connection of connections) connection.endIfIdle(openedMs, answeredMs);
    },
    destroy() {
      stopSweeping();
      for (const connection of connections) connection.destroy();
    },
  };
}
