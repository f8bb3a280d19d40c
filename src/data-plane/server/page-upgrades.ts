import { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import type { FrontRequest } from "../../relay/client/incoming.ts";
import type { ConnectSockets } from "../connect/connect-sockets.ts";
import { navigationOf } from "../connect/navigation.ts";
import { allowOrigin, type PageOrigins } from "../connect/page-origin.ts";
import { errorMessage } from "../connect/socket-message.ts";
import type { DoorAnswers } from "./answers.ts";
import type { UpgradeRequest } from "./door-call.ts";
import type { HeadCheck } from "./heads.ts";
import type { RefusalLog } from "./refusal-log.ts";
import type { DoorCount } from "./request-count.ts";
import type { DoorTunnels } from "./tunnels.ts";

/** What a listener that browsers may use has for its pages. */
export interface DoorPages {
  readonly origins: PageOrigins;
  readonly sockets: ConnectSockets;
}

/** WebSockets on which pages wait for the result of an authorization. */
export interface PageUpgrades {
  includes(request: FrontRequest): boolean;
  open(call: UpgradeRequest): void;
  close(): void;
}

interface PageUpgradesOptions {
  readonly sockets: ConnectSockets;
  readonly heads: Pick<HeadCheck, "check">;
  readonly answers: Pick<DoorAnswers, "showTo" | "fault">;
  readonly count: DoorCount;
  readonly refusals: Pick<RefusalLog, "page">;
  readonly tunnels: DoorTunnels;
  readonly isDraining: () => boolean;
}

export function createPageUpgrades(options: PageUpgradesOptions): PageUpgrades {
  const { sockets, heads, answers, count, refusals, tunnels, isDraining } = options;

  function join({ request, response, socket, early }: UpgradeRequest): void {
    if (isDraining()) throw new Fault("not_ready", "Latchkey is stopping");
    const page = heads.check(request, "script");
    if (page !== undefined) answers.showTo(request, page);
    sockets.join(request, socket, early);
    response.statusCode = 101;
    response.detachSocket(socket);
  }

  function refuse({ request, response, socket, early }: UpgradeRequest, fault: Fault): void {
    refusals.page(request, fault);
    if (!isRefusedPage(request, fault)) {
      answers.fault({ request, response }, fault);
      return;
    }
    // Pages cannot see the response to a handshake: the frontend SDK would wait forever.
    response.statusCode = fault.status;
    response.detachSocket(socket);
    const message = allowOrigin(request.headers.origin ?? "");
    sockets.refuse(request, socket, { early, message: errorMessage("", { code: fault.code, message }) });
  }

  return {
    includes: ({ url = "" }) => /^\/(?:\?|$)/.test(url),
    open(call) {
      count.begin();
      tunnels.add(call.socket, () => {
        count.end({ route: "/", status: call.response.statusCode, since: undefined });
      });
      try {
        join(call);
      } catch (error) {
        refuse(call, faultOfStore(error));
      }
    },
    close: () => sockets.close(),
  };
}

/** Programs can read the status of a handshake; pages cannot. */
const isRefusedPage = (request: FrontRequest, { code }: Fault): boolean =>
  code === "origin_not_allowed" && navigationOf(request.headers).isBrowser;
