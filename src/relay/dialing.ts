import net, { type LookupFunction, type OnReadOpts, type Socket } from "node:net";
import tls, { type ConnectionOptions, type SecureContext } from "node:tls";
import { failureOf } from "./dial-failure.ts";
import { endedByProvider, type RelayFailure } from "./failure.ts";
import type { Origin } from "./origin.ts";

export interface DialTarget {
  readonly origin: Origin;
  readonly secureContext: SecureContext | undefined;
  /** TLS session of an earlier connection to the same origin. */
  readonly session: Buffer | undefined;
  /** ALPN protocols to offer; HTTP/1.1 alone by default. */
  readonly protocols?: readonly string[];
  /** Read buffers of the socket; undefined: bytes go to the socket's stream. */
  readonly onread?: OnReadOpts;
}

/** Callbacks of a connection that is being opened. One of `onReady` and `onFailed` is called, in a later tick. */
export interface DialListener {
  /** The socket may be written to: for TLS, after the certificate was verified. Listen to its errors now. */
  onReady(socket: Socket): void;
  onFailed(failure: RelayFailure): void;
  /** The origin has sent a TLS session for the next connection. Also called after `onReady`. */
  onTicket(ticket: Buffer): void;
}

/** A connection that is being opened. */
export interface Dial {
  /** Ends the attempt. Must not be called after `onReady`. */
  giveUp(failure: RelayFailure): void;
}

const http1Alone = ["http/1.1"];

/** TLS options for an origin, under whose name alone the certificate is accepted. */
export const tlsOptionsOf = ({ origin, secureContext, session, protocols = http1Alone }: DialTarget) =>
  ({
    secureContext,
    session,
    servername: net.isIP(origin.host) === 0 ? origin.host : "",
    // Overrides the environment (`NODE_TLS_REJECT_UNAUTHORIZED`): credentials only go to a server that has proved its
    // identity.
    rejectUnauthorized: true,
    ALPNProtocols: protocols,
  }) as ConnectionOptions;

/** Opens a connection to one of the addresses that `lookup` returns. */
export function dialDirectly(target: DialTarget, lookup: LookupFunction, listener: DialListener): Dial {
  const { origin, onread } = target;
  const { host, port } = origin;
  const common = { host, port, lookup, ...(onread === undefined ? {} : { onread }) };
  const socket =
    origin.scheme === "http"
      ? net.connect(common)
      : tls.connect({ ...common, ...tlsOptionsOf(target) } as ConnectionOptions);
  socket.setNoDelay(true);
  reportReady(socket, origin, listener);
  return { giveUp: (failure) => void socket.destroy(failure) };
}

/** Tells the listener when a socket to an origin, on its way to be connected, may be written to. */
export function reportReady(socket: Socket, { scheme }: Origin, { onReady, onFailed, onTicket }: DialListener): void {
  let failure: RelayFailure | undefined;
  const onError = (error: Error) => {
    failure ??= failureOf(error, false);
  };
  const onClose = () => onFailed(failure ?? endedByProvider());
  socket.on("error", onError).once("close", onClose);
  if (scheme === "https") socket.on("session", onTicket);
  // For TLS not `connect`: nothing is written before the certificate was verified.
  socket.once(scheme === "http" ? "connect" : "secureConnect", () => {
    socket.off("error", onError).off("close", onClose);
    onReady(socket);
  });
}
