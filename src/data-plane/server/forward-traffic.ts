import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { FrontHead } from "../../relay/client/incoming.ts";
import type { ForwardTarget } from "../proxy/forwarding/forward-target.ts";

/** The forward proxy of a listener: tunnels, and requests that name a whole URL. */
export interface ForwardTraffic {
  /** Answers `CONNECT`. */
  connect(call: ConnectCall): void;
  /** Returns the target of a request inside of a tunnel; undefined: the request came outside. */
  tunnelOf(request: FrontHead): ForwardTarget | undefined;
  /** Returns the target of a request in absolute form. Throws for one without a key. */
  targetOf(request: FrontHead): ForwardTarget;
  /** Ends tunnels that carry no request. */
  drain(): void;
}

/** A request for a tunnel. Node has detached its socket from the server. */
export interface ConnectCall {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  /** Bytes that followed the head of the request. */
  readonly early: Buffer;
  readonly isDraining: boolean;
  /** Name of the listener. */
  readonly listener: string;
  /** Serves the decrypted side of a tunnel like a connection of this listener. */
  readonly serve: (secure: Socket, isHttp2: boolean) => void;
}
