import type { Socket } from "node:net";
import { type Dial, type DialListener, type DialTarget, dialDirectly } from "./dialing.ts";
import type { Egress } from "./egress.ts";
import { dialThroughProxy } from "./egress-proxy/proxied-dial.ts";
import { noConnection } from "./failure.ts";

/**
 * Opens a connection to an origin: only to addresses that egress has checked, only under the origin's name, and
 * through the egress proxy if there is one for this origin.
 */
export function dial(egress: Egress, target: DialTarget, listener: DialListener): Dial {
  const { origin } = target;
  const route = egress.routeTo(origin);
  if (route === undefined) return dialDirectly(target, egress.lookupFor(origin), listener);
  return dialThroughProxy(route, target, listener);
}

/** Opens a connection for someone else's HTTP client. Rejects with `RelayFailure`. */
export function openSocket(egress: Egress, target: DialTarget, withinMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => opening.giveUp(noConnection()), withinMs);
    const opening = dial(egress, target, {
      onReady(socket) {
        clearTimeout(late);
        resolve(socket);
      },
      onFailed(failure) {
        clearTimeout(late);
        reject(failure);
      },
      onTicket() {},
    });
  });
}
