import { RelayFailure } from "./failure.ts";

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
