import { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { DoorAnswers } from "./answers.ts";
import type { DoorCall, UpgradeRequest } from "./door-call.ts";
import type { HeadCheck } from "./heads.ts";
import type { DoorCount } from "./request-count.ts";
import type { DoorSockets } from "./sockets.ts";
import type { DoorTunnels } from "./tunnels.ts";

/** Relays the requests of a listener that has no routes of its own. */
export interface RouteRelay {
  /** Calls `fail` at most once, before the response has begun. */
  send(call: DoorCall, fail: (fault: Fault) => void): void;
  /** Joins the sockets; calls `fail` instead if there is nothing to join with. */
  upgrade(call: UpgradeRequest, fail: (fault: Fault) => void): void;
}

interface RelayedRoutesOptions {
  readonly relay: RouteRelay;
  readonly heads: Pick<HeadCheck, "check" | "targetOf">;
  readonly answers: Pick<DoorAnswers, "fault">;
  readonly count: DoorCount;
  readonly sockets: Pick<DoorSockets, "forget">;
  readonly tunnels: DoorTunnels;
  readonly isDraining: () => boolean;
}

/** Any path: which routes there are is for the other end to say. */
const route = "relayed";

export interface RelayedRoutes {
  send(call: DoorCall): void;
  upgrade(call: UpgradeRequest): void;
}

export function createRelayedRoutes(options: RelayedRoutesOptions): RelayedRoutes {
  const { relay, heads, answers, count, sockets, tunnels, isDraining } = options;
  return {
    send(call) {
      const { request, response } = call;
      const since = performance.now();
      count.begin();
      response.on("close", () => {
        sockets.forget(response);
        count.end({ route, status: response.statusCode, since });
      });
      const fail = (fault: Fault) => answers.fault({ request, response }, fault);
      try {
        // Pages of other sites are refused here, as on a listener without pages: the names of its hosts differ.
        heads.check(request);
        heads.targetOf(request);
        relay.send(call, fail);
      } catch (error) {
        fail(faultOfStore(error));
      }
    },
    upgrade(call) {
      const { request, response, socket } = call;
      count.begin();
      tunnels.add(socket, () => count.end({ route, status: response.statusCode, since: undefined }));
      const fail = (fault: Fault) => answers.fault({ request, response }, fault);
      try {
        heads.check(request);
        if (isDraining()) throw new Fault("not_ready", "Latchkey is stopping");
        relay.upgrade(call, fail);
      } catch (error) {
        fail(faultOfStore(error));
      }
    },
  };
}
