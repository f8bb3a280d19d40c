import net, { type OnReadOpts, type Socket } from "node:net";
import tls, { type SecureContext } from "node:tls";
import type { Egress } from "./egress.ts";
import { RelayFailure } from "./failure.ts";
import type { Origin } from "./origin.ts";

export interface DialTarget {
  readonly origin: Origin;
  readonly egress: Egress;
  readonly secureContext: SecureContext | undefined;
  /** Of an earlier connection to the same origin. */
  readonly session: Buffer | undefined;
  /** What is offered under TLS; by default HTTP/1.1 alone. */
  readonly protocols?: readonly string[];
}

const http1Alone = ["http/1.1"];

/** A socket on its way to an origin: to no address but those that egress has judged, and to no name but the origin's. */
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
          // Whatever the environment says: credentials go to nobody who has not proved who it is.
          rejectUnauthorized: true,
          ALPNProtocols: protocols,
        } as tls.ConnectionOptions);
  return socket.setNoDelay(true);
}

/** When it can be written to. With TLS not `connect`: nothing is written before the certificate was verified. */
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
  // Of ours: no more files, ports or memory for connections.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
  ENOBUFS: "overloaded",
  ENOMEM: "overloaded",
  EADDRNOTAVAIL: "overloaded",
};

/** `isReady`: the connection stood. */
export function failureOf(error: Error, isReady: boolean): RelayFailure {
  if (error instanceof RelayFailure) return error;
  // Of a name with several addresses, each tried in vain.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return failureOf(error.errors[0], isReady);
  const { code = "", syscall } = error as NodeJS.ErrnoException;
  const kind = byCode[code];
  if (kind !== undefined) return new RelayFailure(kind, `the provider's host: ${code}`, { cause: error });
  if (syscall === "connect") return new RelayFailure("unreachable", `the provider's host: ${code}`, { cause: error });
  // Before the connection stands, what is neither of the network nor of the name is of TLS.
  if (!isReady && code !== "ECONNRESET" && code !== "EPIPE") {
    return new RelayFailure("untrusted", `no trusted connection: ${code || error.message}`, { cause: error });
  }
  return new RelayFailure("closed", `the provider's connection: ${code || error.message}`, { cause: error });
}

/** Whether an origin has refused a handshake because HTTP/1.1 was all that was offered (RFC 7301, 3.2). */
export const wantsHttp2 = ({ cause }: RelayFailure): boolean =>
  cause instanceof Error && (cause as NodeJS.ErrnoException).code === "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL";
