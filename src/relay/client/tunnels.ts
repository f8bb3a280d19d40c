import type { Socket } from "node:net";
import { connectedEvent, dial, failureOf } from "../dial.ts";
import type { Egress } from "../egress.ts";
import { endedByProvider, noConnection, overloaded, RelayFailure } from "../failure.ts";
import type { OriginLimits } from "../limits.ts";
import type { AdmittedOrigin } from "../origin.ts";
import type { Pools } from "../pools.ts";

/** Dedicated connections for requests that do not end with a response. */
export interface Tunnels {
  /** Rejects with `RelayFailure`. A resolved socket is connected and belongs to the caller. */
  open(origin: AdmittedOrigin, signal: AbortSignal): Promise<Socket>;
  destroy(): void;
}

interface TunnelsOptions {
  readonly pools: Pools;
  readonly egress: Egress;
  readonly limits: OriginLimits;
}

export function createTunnels({ pools, egress, limits }: TunnelsOptions): Tunnels {
  const open = new Set<Socket>();
  return {
    open(origin, signal) {
      const pool = pools.of(origin);
      if (pool.tunnels >= limits.perOrigin) return Promise.reject(overloaded(origin));
      const socket = dial({ origin, egress, secureContext: pool.secureContext, session: pool.session });
      pool.tunnels += 1;
      open.add(socket);
      socket.once("close", () => {
        pool.tunnels -= 1;
        open.delete(socket);
      });
      return new Promise((resolve, reject) => {
        const onAbort = () => socket.destroy(new RelayFailure("closed", "the caller has left"));
        const late = setTimeout(() => socket.destroy(noConnection()), limits.connectMs);
        const onError = (error: Error) => reject(failureOf(error, false));
        const settled = () => {
          clearTimeout(late);
          signal.removeEventListener("abort", onAbort);
        };
        socket.on("error", onError).once("close", () => {
          settled();
          reject(endedByProvider());
        });
        socket.once(connectedEvent(origin), () => {
          settled();
          resolve(socket);
        });
        signal.addEventListener("abort", onAbort);
        if (signal.aborted) onAbort();
      });
    },
    destroy() {
      for (const socket of open) socket.destroy();
    },
  };
}
