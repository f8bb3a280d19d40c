import { Fault } from "../../base/fault.ts";
import { hostName } from "../../base/http/door-guard.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { isGrpc } from "../../core/outgoing/grpc.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type FrontHead, type FrontRequest, isStream } from "../../relay/client/incoming.ts";
import { isUnderMcp, mcpPrefix } from "../mcp/target.ts";
import { type CallContext, proxyPrefix } from "../proxy/provider-call.ts";
import type { ProviderProxy } from "../proxy/proxy.ts";
import type { NotableCall } from "../proxy/proxy-call.ts";
import type { DoorAnswers } from "./answers.ts";
import type { DoorCall, UpgradeRequest } from "./door-call.ts";
import { EndlessResponse, type EndlessResponses } from "./endless-responses.ts";
import type { ForwardTraffic } from "./forward-traffic.ts";
import { type HeadCheck, isInAbsoluteForm } from "./heads.ts";
import type { DoorCount } from "./request-count.ts";
import type { DoorSockets } from "./sockets.ts";
import type { DoorTunnels } from "./tunnels.ts";

/** Hands requests on the general path to the provider proxy. */
export interface ProviderDispatch {
  /** Returns whether a request goes to a provider: all others are for routes. */
  includes(request: FrontRequest): boolean;
  /** Sends a request, without a promise. */
  send(call: DoorCall): void;
  /** Sends a request for a WebSocket. */
  upgrade(call: UpgradeRequest): void;
}

/** Returns the connection that a listener or host name stands for. */
export type AliasLookup = (head: FrontHead) => ConnectionRef | undefined;

interface ProviderDispatchOptions {
  /** Name of the listener. */
  readonly listener: string;
  readonly proxy: ProviderProxy;
  readonly aliasOf: AliasLookup;
  /** Set for a listener that is a forward proxy. */
  readonly forward: Pick<ForwardTraffic, "tunnelOf" | "targetOf"> | undefined;
  /** The listener has no paths of its own. */
  readonly isForwardOnly: boolean;
  readonly heads: Pick<HeadCheck, "checkForProvider" | "checkInTunnel">;
  readonly answers: Pick<DoorAnswers, "fault">;
  readonly count: DoorCount;
  readonly sockets: Pick<DoorSockets, "forget">;
  readonly tunnels: DoorTunnels;
  /** Responses without end, which are destroyed on shutdown. */
  readonly endless: EndlessResponses;
  readonly isLeaving: () => boolean;
  readonly isDraining: () => boolean;
}

const mcpRoute = `${mcpPrefix}/*`;
const providerRoute = `${proxyPrefix}/*`;

export function createProviderDispatch(options: ProviderDispatchOptions): ProviderDispatch {
  const {
    listener,
    proxy,
    aliasOf,
    forward,
    isForwardOnly,
    heads,
    answers,
    count,
    sockets,
    tunnels,
    endless,
    isLeaving: isLast,
    isDraining,
  } = options;

  /** Checks a request, and returns what it is for. Throws. */
  function admit(request: FrontHead): Pick<CallContext, "alias" | "forward"> {
    const tunnel = forward?.tunnelOf(request);
    if (tunnel !== undefined) {
      heads.checkInTunnel(request, tunnel);
      return { forward: tunnel };
    }
    heads.checkForProvider(request);
    const alias = aliasOf(request);
    if (forward === undefined || !isInAbsoluteForm(request)) return { alias };
    return { forward: forward.targetOf(request) };
  }

  return {
    includes(request) {
      if (forward?.tunnelOf(request) !== undefined) return true;
      if (isForwardOnly) return isInAbsoluteForm(request);
      if (aliasOf(request) !== undefined || isUnderProxy(request) || isInAbsoluteForm(request)) return true;
      if (isUnderMcp(request)) return true;
      // No other route takes gRPC calls, and gRPC clients cannot set a path prefix.
      return isStream(request) && isGrpc(request.headers["content-type"]);
    },
    send({ request, response, proceed }) {
      const since = performance.now();
      count.begin();
      let entered: NotableCall | undefined;
      let open: EndlessResponse | undefined;
      const onEndless = () => {
        open = new EndlessResponse(response);
        endless.add(open);
      };
      // `on`, not `once`: the event comes once anyway, and `once` costs a wrapper.
      response.on("close", () => {
        sockets.forget(response);
        const status = response.statusCode;
        if (entered !== undefined) proxy.leave(entered, response.headersSent ? status : 0, performance.now());
        if (open !== undefined) endless.delete(open);
        count.end({ route: isUnderMcp(request) ? mcpRoute : providerRoute, status, since });
      });
      const answerFault = (fault: Fault) => answers.fault({ request, response }, fault);
      try {
        const target = admit(request);
        entered = proxy.handle({ request, response, proceed, answerFault, isLast, onEndless, listener, ...target });
      } catch (error) {
        answerFault(faultOfStore(error));
      }
    },
    upgrade({ request, response, socket, early }) {
      count.begin();
      let entered: NotableCall | undefined;
      tunnels.add(socket, () => {
        const status = response.statusCode;
        if (entered !== undefined) proxy.leave(entered, status, performance.now());
        count.end({ route: providerRoute, status, since: undefined });
      });
      const answerFault = (fault: Fault) => answers.fault({ request, response }, fault);
      const onTunnel = (close: () => void) => tunnels.open(socket, close);
      try {
        const target = admit(request);
        if (isDraining()) {
          throw new Fault(
            "not_ready",
            "Latchkey is stopping and opens no new WebSockets: send the request again to reach another replica",
          );
        }
        entered = proxy.upgrade({ request, socket, early, response, answerFault, onTunnel, listener, ...target });
      } catch (error) {
        answerFault(faultOfStore(error));
      }
    },
  };
}

interface Aliases {
  /** The connection for every request of the listener. */
  readonly alias: ConnectionRef | undefined;
  /** Connections by host name. */
  readonly aliases: ReadonlyMap<string, ConnectionRef> | undefined;
}

export const createAliasLookup =
  ({ alias, aliases }: Aliases): AliasLookup =>
  ({ headers }) => {
    if (alias !== undefined || aliases === undefined || aliases.size === 0) return alias;
    return aliases.get(hostName(headers.host ?? "") ?? "");
  };

const isUnderProxy = ({ url = "" }: FrontRequest): boolean => url.startsWith(`${proxyPrefix}/`);
