import type { Socket } from "node:net";
import { onBeat } from "../../base/loop/beat.ts";
import { finishTick } from "../batching.ts";
import { ClientConnection } from "./client-connection.ts";
import type { ClientConnectionOwner } from "./client-connection-owner.ts";

/** The client connections of a listener, as long as all their requests were ordinary. */
export interface Clients {
  open(socket: Socket): void;
  /** From now on every response that begins closes its connection. */
  leave(): void;
  /** Closes idle connections; busy ones close after their request. */
  drain(): void;
  destroy(): void;
}

type ClientsOptions = Pick<ClientConnectionOwner<ClientConnection>, "take" | "refuse"> & {
  readonly handOver: (socket: Socket, isHttp1: boolean) => void;
};

/** A scan of all connections replaces a timer each. */
const sweepEveryMs = 1_000;

export function createClients({ take, handOver, refuse }: ClientsOptions): Clients {
  const connections = new Set<ClientConnection>();
  const owner = {
    take,
    refuse,
    handOver(connection: ClientConnection, socket: Socket, isHttp1: boolean) {
      connections.delete(connection);
      handOver(socket, isHttp1);
    },
    closed: (connection: ClientConnection) => void connections.delete(connection),
    isLeaving: false,
    isDraining: false,
    nowMs: performance.now(),
  };
  /** Bytes that arrived while the process was frozen are read before the connection can be found too late. */
  const stopSweeping = onBeat(sweepEveryMs, () => {
    owner.nowMs = performance.now();
    setImmediate(sweep);
  });

  function sweep(): void {
    finishTick();
    for (const connection of connections) connection.sweep(owner.nowMs);
    if (owner.isDraining && connections.size === 0) stopSweeping();
  }

  return {
    open: (socket) => void connections.add(new ClientConnection(socket, owner)),
    leave() {
      owner.isLeaving = true;
    },
    drain() {
      finishTick();
      owner.isLeaving = true;
      owner.isDraining = true;
      for (const connection of connections) connection.endIfIdle();
    },
    destroy() {
      stopSweeping();
      for (const connection of connections) connection.destroy();
    },
  };
}
