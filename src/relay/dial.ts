import net, { type OnReadOpts, type Socket } from "node:net";
import tls, { type SecureContext } from "node:tls";
import type { Egress } from "./egress.ts";
import { RelayFailure } from "./failure.ts";
import type { Origin } from "./origin.ts";

export interface DialTarget {
  readonly origin: Origin;
  readonly egress: Egress;
  readonly secureContext: SecureContext | undefined;
  /** TLS session of an earlier connection to the same origin. */
  readonly session: Buffer | undefined;
  /** ALPN protocols to offer; HTTP/1.1 alone by default. */
  readonly protocols?: readonly string[];
}

const http1Alone = ["http/1.1"];

/** Opens a socket to an origin: only to addresses that egress has checked, and only under the origin's name. */
export function dial({
  origin,
  egress,
  secureContext,
  session,
  protocols = http1Alone,
  onread,
}: DialTarget & { readonly onread?: OnReadOpts }): Socket {
  const { host, port } = origin;
  const common = { host, port, lookup: egress.lookupFor(origin), ...(onread === undefined ? {} : { onread }) };
  const socket =
    origin.scheme === "http"
      ? net.connect(common)
      : tls.connect({
          ...common,
          secureContext,
          session,
          servername: net.isIP(host) === 0 ? host : "",
          // Overrides the environment (`NODE_TLS_REJECT_UNAUTHORIZED`): credentials only go to a server that has
          // proved its identity.
          rejectUnauthorized: true,
          ALPNProtocols: protocols,
        } as tls.ConnectionOptions);
  return socket.setNoDelay(true);
}

/**
 * The event after which the socket may be written to. For TLS not `connect`: nothing is written before the
 * certificate was verified.
 */
export const connectedEvent = ({ scheme }: Origin): "connect" | "secureConnect" =>
  scheme === "http" ? "connect" : "secureConnect";

const byCode: Readonly<Record<string, RelayFailure["kind"]>> = {
  ECONNREFUSED: "refused",
  ENOTFOUND: "unknown_host",
  EAI_AGAIN: "unknown_host",
  ENODATA: "unknown_host",
  ENETUNREACH: "unreachable",
  EHOSTUNREACH: "unreachable",
  ETIMEDOUT: "connect_timeout",
  // Local limits: no more files, ports or memory for connections.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
  ENOBUFS: "overloaded",
  ENOMEM: "overloaded",
  EADDRNOTAVAIL: "overloaded",
};

/** `isReady`: the connection was established. */
export function failureOf(error: Error, isReady: boolean): RelayFailure {
  if (error instanceof RelayFailure) return error;
  // A name with several addresses, and every attempt failed.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return failureOf(error.errors[0], isReady);
  const { code = "", syscall } = error as NodeJS.ErrnoException;
  const kind = byCode[code];
  if (kind !== undefined) return new RelayFailure(kind, `the provider's host: ${code}`, { cause: error });
  if (syscall === "connect") return new RelayFailure("unreachable", `the provider's host: ${code}`, { cause: error });
  // Before the connection is established, an error of neither the network nor the name is a TLS error.
  if (!isReady && code !== "ECONNRESET" && code !== "EPIPE") {
    return new RelayFailure("untrusted", `no trusted connection: ${code || error.message}`, { cause: error });
  }
  return new RelayFailure("closed", `the provider's connection: ${code || error.message}`, { cause: error });
}

/** Returns whether an origin refused a handshake because only HTTP/1.1 was offered (RFC 7301, 3.2). */
export const wantsHttp2 = ({ cause }: RelayFailure): boolean =>
  cause instanceof Error && (cause as NodeJS.ErrnoException).code === "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL";
