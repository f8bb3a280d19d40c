import type { Socket } from "node:net";
import { dial } from "../dial.ts";
import type { Dial } from "../dialing.ts";
import type { Egress } from "../egress.ts";
import { noConnection, overloaded, RelayFailure } from "../failure.ts";
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
  /** Tunnels that are open or being opened, with what ends them. */
  const all = new Map<Dial, () => void>();
  const stopping = new RelayFailure("closed", "stopping");
  return {
    open(origin, signal) {
      const pool = pools.of(origin);
      if (pool.tunnels >= limits.perOrigin) return Promise.reject(overloaded(origin));
      pool.tunnels += 1;
      const { secureContext, session } = pool;
      return new Promise((resolve, reject) => {
        const onAbort = () => opening.giveUp(new RelayFailure("closed", "the caller has left"));
        const late = setTimeout(() => opening.giveUp(noConnection()), limits.connectMs);
        const settled = () => {
          clearTimeout(late);
          signal.removeEventListener("abort", onAbort);
        };
        const over = () => {
          pool.tunnels -= 1;
          all.delete(opening);
        };
        const opening = dial(
          egress,
          { origin, secureContext, session },
          {
            onTicket(ticket) {
              pool.session = ticket;
            },
            onReady(socket) {
              settled();
              all.set(opening, () => socket.destroy());
              socket.on("error", () => {}).once("close", over);
              resolve(socket);
            },
            onFailed(failure) {
              settled();
              over();
              reject(failure);
            },
          },
        );
        all.set(opening, () => opening.giveUp(stopping));
        signal.addEventListener("abort", onAbort);
        if (signal.aborted) onAbort();
      });
    },
    destroy() {
      for (const end of all.values()) end();
    },
  };
}
