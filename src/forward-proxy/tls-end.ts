import { isIP, type Socket } from "node:net";
import tls, { type Server, type TLSSocket } from "node:tls";
import { giveSocket } from "../base/node/injected-sockets.ts";
import type { ForwardTarget } from "../data-plane/proxy/forwarding/forward-target.ts";
import type { HostCertificate, HostCertificates } from "./leafs.ts";

/** Ends TLS of tunnels, with a certificate for the host that the caller wants. */
export interface TlsEnd {
  /** Prepares a target, so that the handshake waits for nothing. */
  prepare(target: ForwardTarget, host: string): Promise<PreparedTarget>;
}

export interface PreparedTarget {
  /** Takes the caller's side of a tunnel. */
  take(socket: Socket): void;
}

interface TlsEndOptions {
  readonly certificates: HostCertificates;
  /** A handshake is complete. */
  readonly onSecure: (secure: TLSSocket, target: ForwardTarget) => void;
  /** A handshake failed, for this reason. */
  readonly onFailure: (reason: HandshakeFailure, socket: TLSSocket) => void;
}

/** `name`: the client asked for another host than it connected to, or for none. */
export type HandshakeFailure = "name" | "handshake";

/** A client must complete its handshake within this time. */
const handshakeMs = 10_000;
/** A TLS context takes 55 KB: fewer are kept than certificates. */
const maxServers = 256;

interface TargetServer extends PreparedTarget {
  readonly certificate: HostCertificate;
}

class NameMismatch extends Error {}

/**
 * There is a TLS server for each target, which never listens itself and is given sockets: so a socket belongs to its
 * target without a search, and one certificate alone can be shown on it.
 */
export function createTlsEnd({ certificates, onSecure, onFailure }: TlsEndOptions): TlsEnd {
  /** In the order of use. */
  const servers = new Map<ForwardTarget, TargetServer>();
  const underWay = new Map<ForwardTarget, Promise<TargetServer>>();

  function createServer(target: ForwardTarget, host: string, { cert, key }: HostCertificate): Server {
    const isName = isIP(host) === 0;
    const server = tls.createServer({
      cert,
      key,
      minVersion: "TLSv1.2",
      handshakeTimeout: handshakeMs,
      ALPNProtocols: ["h2", "http/1.1"],
      // Called only for a client that names a host.
      SNICallback: (name, done) => (name.toLowerCase() === host ? done(null) : done(new NameMismatch())),
    });
    server.on("secureConnection", (secure) => {
      // A client without a name can not be told from one that hides it.
      if (isName && !secure.servername) {
        onFailure("name", secure);
        secure.destroy();
        return;
      }
      onSecure(secure, target);
    });
    server.on("tlsClientError", (error, secure) => {
      onFailure(error instanceof NameMismatch ? "name" : "handshake", secure);
      // After a handshake timeout, Node leaves the connection open.
      secure.destroy();
    });
    return server;
  }

  async function make(target: ForwardTarget, host: string): Promise<TargetServer> {
    const certificate = await certificates.of(host, target.origin);
    const server = createServer(target, host, certificate);
    const made = { certificate, take: (socket: Socket) => giveSocket(server, socket) };
    keep(target, made);
    return made;
  }

  function keep(target: ForwardTarget, server: TargetServer): void {
    servers.delete(target);
    servers.set(target, server);
    for (const [oldest] of servers) {
      if (servers.size <= maxServers) break;
      servers.delete(oldest);
    }
  }

  return {
    async prepare(target, host) {
      const known = servers.get(target);
      if (known !== undefined && certificates.isCurrent(known.certificate)) {
        keep(target, known);
        return known;
      }
      const shared = underWay.get(target) ?? make(target, host).finally(() => underWay.delete(target));
      underWay.set(target, shared);
      return shared;
    },
  };
}
